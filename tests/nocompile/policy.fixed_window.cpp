// refused: [fulgurite.policy.fixed_window] this strategy keeps one accumulation window for a whole fit, and a callback changes it: use Automatic{.accumulate_grad_batches = k}
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Engine : toy::Device {
#ifndef LEGAL
  static constexpr bool fixed_window = true;
#endif
};
/// Twice the batches in each epoch.
struct Doubling {
  static constexpr bool varies_window = true;
  void on_train_start() {}
};

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, Engine{}, Float32{}, Automatic{}, Doubling{});
  trainer.fit(net, toy::batches(4));
}
