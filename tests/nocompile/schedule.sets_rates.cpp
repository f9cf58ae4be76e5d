// refused: [fulgurite.schedule.sets_rates] this schedule has move or observe, which are asked only of one that sets the rates itself: add `static constexpr bool sets_rates = true`, or leave them out
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Halves {
  using Stateless = ByChoice;
#ifdef LEGAL
  static constexpr bool sets_rates = true;
#else
  double operator()(long moves) const { return 1.0 / static_cast<double>(1 + moves); }
#endif
  void move(auto& optimizer) { optimizer.set_lr(0, 0.1); }
};
struct Net : toy::P {
  auto configure_optimizers() { return scheduled(toy::Sgd{{p}}, Halves{}); }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
