// refused: [fulgurite.callback.needs_automatic] this callback changes the accumulation window or the schedule, which Manual leaves to training_step: use Automatic{}, or leave it out
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
#ifdef LEGAL
  using toy::P::training_step;
#else
  void training_step(double, auto& ctx) { ctx.minimize(std::get<0>(ctx.optimizers()), -p); }
#endif
};
/// Twice as many batches a step in every epoch.
struct Doubling {
  static constexpr bool needs_automatic = true;
  void on_train_epoch_start(auto& ctx) {
    if constexpr (requires { ctx.accumulate(2); }) ctx.accumulate(2 * (ctx.current_epoch() + 1));
  }
};

int main() {
  Net net;
#ifdef LEGAL
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Doubling{});
#else
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Manual{}, Doubling{});
#endif
  trainer.fit(net, toy::batches(4));
}
