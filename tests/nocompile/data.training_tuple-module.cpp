// refused: [fulgurite.data.training_tuple] training reads one loader, and a std::tuple of several is for evaluation: join them, data::combined(first, second)
#include <toy.hpp>

#include <tuple>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Digits {
#ifdef LEGAL
  auto train_dataloader() { return toy::batches(4); }
#else
  auto train_dataloader() { return std::tuple{toy::batches(4), toy::batches(4)}; }
#endif
};

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, Digits{});
}
