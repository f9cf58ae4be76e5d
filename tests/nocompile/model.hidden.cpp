// refused: [fulgurite.model.hidden] the model declares Hidden, so its step takes one: `auto training_step(auto const& batch, std::optional<Hidden> const& hidden, auto& ctx)`
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Step {
  toy::Tensor loss, hidden;
};
struct Net {
  using Hidden = toy::Tensor;
  toy::Tensor p = toy::Tensor::parameter(1.0);
#ifdef LEGAL
  Step training_step(std::vector<double> const& slice, std::optional<Hidden> const&) { return {p * slice[0], p}; }
#else
  Step training_step(std::vector<double> const& slice) { return {p * slice[0], p}; }
#endif
  auto configure_optimizers() { return toy::Sgd{{p}}; }
};

int main() {
  Net net;
  std::vector<std::vector<double>> batches{{1, 2, 3, 4, 5}};
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{.tbptt = 2});
  trainer.fit(net, batches);
}
