// refused: [fulgurite.optimizer.skip_closure] training_step may return nothing, and an optimizer that evaluates the loss several times needs one each time: return a loss for every batch
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
#ifdef LEGAL
  toy::Tensor training_step(double) { return -p; }
#else
  std::optional<toy::Tensor> training_step(double batch) { return batch > 1 ? std::optional(-p) : std::nullopt; }
#endif
  toy::Repeating configure_optimizers() { return {{.params = {p}}}; }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
