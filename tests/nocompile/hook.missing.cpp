// refused: [fulgurite.hook.missing] this optimizer has no step, which the trainer calls: add a public function, step()
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Half {
  static constexpr bool needs_closure = false, stable_gradients = false;
  void zero_grad() {}
#ifdef LEGAL
  void step() {}
#endif
  std::vector<toy::Tensor> parameters() { return {}; }
  std::size_t groups() const { return 0; }
  double lr(std::size_t) const { return 0; }
  void set_lr(std::size_t, double) {}
};
struct Net : toy::P {
  Half configure_optimizers() { return {}; }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
