// refused: [fulgurite.hook.parameters] set_lr of this optimizer cannot be called: make it a public function, set_lr(std::size_t group, double rate)
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Own {
  static constexpr bool needs_closure = false, stable_gradients = false;
  void zero_grad() {}
  void step() {}
  std::vector<toy::Tensor> parameters() { return {}; }
  std::size_t groups() const { return 0; }
  double lr(std::size_t) const { return 0; }
#ifdef LEGAL
  void set_lr(std::size_t, double) {}
#else
  void set_lr(double) {}
#endif
};
struct Net : toy::P {
  Own configure_optimizers() { return {}; }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
