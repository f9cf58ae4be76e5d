// refused: [fulgurite.hook.near_miss] movesMomentum is not a hook and would never be called: use moves_momentum
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Halves {
  using Stateless = ByChoice;
  double operator()(long moves) const { return 1.0 / static_cast<double>(1 + moves); }
#ifdef LEGAL
  bool moves_momentum() const { return false; }
#else
  bool movesMomentum() const { return false; }
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
