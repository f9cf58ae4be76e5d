// refused: [fulgurite.hook.near_miss] zeroGrad is not a hook and would never be called: use zero_grad
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Own {
  static constexpr bool needs_closure = false, stable_gradients = false;
  toy::Sgd of{};
#ifdef LEGAL
  void zero_grad() { of.zero_grad(); }
#else
  void zeroGrad() { of.zero_grad(); }
#endif
  void step() { of.step(); }
  auto parameters() { return of.parameters(); }
  std::size_t groups() const { return of.groups(); }
  double lr(std::size_t group) const { return of.lr(group); }
  void set_lr(std::size_t group, double rate) { of.set_lr(group, rate); }
  using Stateless = ByChoice;
};
struct Net : toy::P {
  Own configure_optimizers() { return {{{p}}}; }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
