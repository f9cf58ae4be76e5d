// refused: [fulgurite.trainer.copied] make_trainer keeps what it is given, and one of these variables cannot be copied: write std::move(pruning), or make it in the call
#include <toy.hpp>

#include <memory>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Pruning {
  using Stateless = ByChoice;
  std::unique_ptr<int> mask = nullptr;
  void on_fit_start() {}
};

int main() {
  toy::P net;
  Pruning pruning;
#ifdef LEGAL
  auto trainer = make_trainer(net, TrainerOptions{.max_epochs = 1}, toy::Device{}, NoDefaults{}, std::move(pruning));
#else
  auto trainer = make_trainer(net, TrainerOptions{.max_epochs = 1}, toy::Device{}, NoDefaults{}, pruning);
#endif
  trainer.fit(net, toy::batches(4));
}
