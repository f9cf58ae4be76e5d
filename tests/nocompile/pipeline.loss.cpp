// refused: [fulgurite.pipeline.loss] this strategy runs training_step to its end in one process, and the others learn of nothing but the loss: return the loss itself, a tensor
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Split : toy::Several {
#ifndef LEGAL
  static constexpr bool splits_model = true;
#endif
};
struct Output {
  toy::Tensor loss;
};
struct Net : toy::P {
  Output training_step(double x) { return {p * toy::Tensor(x)}; }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, Split{}, Float32{}, Automatic{});
  trainer.fit(net, toy::OwnPart<double>{toy::batches(4)});
}
