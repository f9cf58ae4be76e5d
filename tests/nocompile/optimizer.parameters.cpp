// refused: [fulgurite.optimizer.parameters] parameters() of an optimizer must return a list of the tensors that it steps, such as std::vector<torch::Tensor>: clipping and checks of gradients read it
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Own {
  static constexpr bool needs_closure = false, stable_gradients = false;
  void zero_grad() {}
  void step() {}
#ifdef LEGAL
  std::vector<toy::Tensor> parameters() { return {}; }
#else
  std::vector<double> parameters() { return {}; }
#endif
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
