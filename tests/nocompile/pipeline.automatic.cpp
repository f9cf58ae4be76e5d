// refused: [fulgurite.pipeline.automatic] this strategy takes the model apart, so forward and backward take turns and no step drives them by hand: use Automatic{}, or another strategy
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Split : toy::Several {
#ifndef LEGAL
  static constexpr bool splits_model = true;
#endif
};
struct Net : toy::P {
  void training_step(double x, auto& ctx) { ctx.minimize(std::get<0>(ctx.optimizers()), p * toy::Tensor(x)); }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, Split{}, Float32{}, Manual{});
  trainer.fit(net, toy::OwnPart<double>{toy::batches(4)});
}
