// refused: [fulgurite.model.hidden_distributed] the batches of several processes may be of different length, and a model with Hidden steps once for each slice of one: train in one process, or remove `using Hidden`
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

#ifdef LEGAL
using Many = toy::Device;
#else
using Many = toy::Several;
#endif
struct Step {
  toy::Tensor loss, hidden;
};
struct Net {
  using Hidden = toy::Tensor;
  toy::Tensor p = toy::Tensor::parameter(1.0);
  Step training_step(std::vector<double> const& slice, std::optional<Hidden> const&) { return {p * slice[0], p}; }
  auto configure_optimizers() { return toy::Sgd{{p}}; }
};

int main() {
  Net net;
  toy::OwnPart<std::vector<double>> batches{{{1, 2, 3, 4, 5}}};
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, Many{}, Float32{}, Automatic{.tbptt = 2});
  trainer.fit(net, batches);
}
