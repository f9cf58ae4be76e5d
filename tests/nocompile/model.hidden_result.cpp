// refused: [fulgurite.model.hidden_result] the model declares Hidden, so training_step must also return the next one: return a struct with `.loss` and `.hidden`
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
  toy::Tensor training_step(std::vector<double> const& slice, std::optional<Hidden> const&) { return p * slice[0]; }
#endif
  auto configure_optimizers() { return toy::Sgd{{p}}; }
};

int main() {
  Net net;
  std::vector<std::vector<double>> batches{{1, 2, 3, 4, 5}};
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{.tbptt = 2});
  trainer.fit(net, batches);
}
