// refused: [fulgurite.schedule.momentum] this schedule moves the momentum, too, and the optimizer has none: write
// schedule::rate_only(schedule), or take another optimizer
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>
#include <fulgurite/schedule/schedule.hpp>

using namespace fulgurite;

struct Net : toy::P {
  auto configure_optimizers() {
#ifdef LEGAL
    return scheduled(toy::Sgd{{ p }}, schedule::rate_only(schedule::OneCycle{.total = 4}));
#else
    return scheduled(toy::Sgd{{p}}, schedule::OneCycle{.total = 4});
#endif
  }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
