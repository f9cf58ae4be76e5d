// refused: [fulgurite.data.list_of_loaders] a list of loaders is taken as one loader, whose batches would be the loaders: pass std::tuple{a, b} for evaluation, and data::combined(a, b) for training
#include <toy.hpp>

#include <tuple>
#include <vector>

#include <fulgurite/data/loader.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

using Rows = data::Loader<std::vector<double>>;

struct Net : toy::P {
  void validation_step(auto const&) {}
};

struct Data {
  auto train_dataloader() { return toy::batches(4); }
  auto val_dataloader() {
#ifdef LEGAL
    return std::tuple{Rows{{1, 2}, {.batch_size = 1}}, Rows{{3, 4}, {.batch_size = 2}}};
#else
    std::vector<Rows> both;
    both.push_back(Rows{{1, 2}, {.batch_size = 1}});
    both.push_back(Rows{{3, 4}, {.batch_size = 2}});
    return both;
#endif
  }
};

int main() {
  Net net;
  Data data;
  make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}).fit(net, data);
}
