// refused: [fulgurite.data.list_of_loaders] a list of loaders is taken as one loader, whose batches would be the loaders: pass std::tuple{a, b} for evaluation, and data::combined(a, b) for training
#include <toy.hpp>

#include <tuple>
#include <vector>

#include <fulgurite/data/combined.hpp>
#include <fulgurite/data/loader.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

using Rows = data::Loader<std::vector<double>>;

struct Net : toy::P {
  toy::Tensor training_step(auto const&) { return -p; }
};

int main() {
  Net net;
  Rows first{{1, 2}, {.batch_size = 1}}, second{{3, 4}, {.batch_size = 1}};
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
#ifdef LEGAL
  trainer.fit(net, data::combined(std::move(first), std::move(second)));
#else
  std::vector<Rows> both;
  both.push_back(std::move(first));
  both.push_back(std::move(second));
  trainer.fit(net, both);
#endif
}
