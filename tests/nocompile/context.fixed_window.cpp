// refused: [fulgurite.context.fixed_window] this strategy keeps one accumulation window for a whole fit: use Automatic{.accumulate_grad_batches = k}
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Engine : toy::Device {
#ifndef LEGAL
  static constexpr bool fixed_window = true;
#endif
};
struct Net : toy::P {
  void on_train_epoch_start(auto& ctx) { ctx.accumulate(2); }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, Engine{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
