// refused: [fulgurite.resume.optimizer] an optimizer has no state(archive), so no fit could resume from the trainer's checkpoints: save its moments there, or write `using Stateless = fulgurite::ByChoice`
#include <vector>

#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Descends {
#ifdef LEGAL
  using Stateless = ByChoice;
#endif
  static constexpr bool needs_closure = false, stable_gradients = true;
  static constexpr std::string_view name() { return "Descends"; }
  std::vector<toy::Tensor> all;
  void zero_grad() {}
  void step() {}
  std::size_t groups() const { return 1; }
  double lr(std::size_t) const { return 1; }
  void set_lr(std::size_t, double) {}
  std::vector<toy::Tensor> const& parameters() const { return all; }
};
struct Net {
  toy::Tensor p = toy::Tensor::parameter(0.0);
  toy::Tensor training_step(double) { return -p; }
  Descends configure_optimizers() { return Descends{{p}}; }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
  trainer.save_checkpoint("asked_for.safetensors");
}
