// refused: [fulgurite.callback.needs_automatic] this callback changes the accumulation window or the schedule, which Manual leaves to training_step: use Automatic{}, or leave it out
#include <toy.hpp>

#include <fulgurite/callback/gradient_accumulation_scheduler.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
#ifdef LEGAL
  using toy::P::training_step;
#else
  void training_step(double, auto& ctx) { ctx.minimize(std::get<0>(ctx.optimizers()), -p); }
#endif
};

int main() {
  Net net;
#ifdef LEGAL
  Automatic how;
#else
  Manual how;
#endif
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, how,
                                   GradientAccumulationScheduler{{{0, 2}}});
  trainer.fit(net, toy::batches(4));
}
