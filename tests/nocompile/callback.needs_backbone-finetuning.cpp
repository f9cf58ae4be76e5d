// refused: [fulgurite.callback.needs_backbone] a callback freezes model.backbone, and the model has no such public member: name that part of it `backbone`
#include <toy.hpp>

#include <fulgurite/callback/backbone_finetuning.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
#ifdef LEGAL
  toy::Part backbone{{ toy::Tensor::parameter(0.0) }};
#else
  toy::Part body{{toy::Tensor::parameter(0.0)}};
#endif
};

int main() {
  Net net;
  auto trainer =
      make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, BackboneFinetuning{});
  trainer.fit(net, toy::batches(4));
}
