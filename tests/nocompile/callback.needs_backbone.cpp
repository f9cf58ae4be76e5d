// refused: [fulgurite.callback.needs_backbone] a callback freezes model.backbone, and the model has no such public member: name that part of it `backbone`
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
#ifdef LEGAL
  toy::Tensor backbone = toy::Tensor::parameter(1.0);
#endif
};
struct Freezes {
  static constexpr bool needs_backbone = true;
  void setup() {}
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Freezes{});
  trainer.fit(net, toy::batches(4));
}
