// refused: [fulgurite.hook.missing] this schedule has no move, which the trainer calls: add a public function, move(auto& optimizer)
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Halves {
  using Stateless = ByChoice;
  static constexpr bool sets_rates = true;
#ifdef LEGAL
  void move(auto& optimizer) { optimizer.set_lr(0, 0.1); }
#endif
};
struct Net : toy::P {
  auto configure_optimizers() { return scheduled(toy::Sgd{{p}}, Halves{}); }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
