// refused: [fulgurite.optimizer.constants] an optimizer of your own says how it is driven: write `static constexpr bool needs_closure = false, stable_gradients = false` in it, or what holds of it
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Own {
#ifdef LEGAL
  static constexpr bool needs_closure = false, stable_gradients = false;
#else
  bool needs_closure = false, stable_gradients = false;
#endif
  void zero_grad() {}
  void step() {}
  std::vector<toy::Tensor> parameters() { return {}; }
  std::size_t groups() const { return 0; }
  double lr(std::size_t) const { return 0; }
  void set_lr(std::size_t, double) {}
};
struct Net : toy::P {
  Own configure_optimizers() { return {}; }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
