// refused: [fulgurite.data.unused_validation] the model has a validation_step, but no loader was given: pass one, give the data module val_dataloader(), or pass NoValidation{} as fit's third argument
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
  void validation_step(double) {}
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
#ifdef LEGAL
  trainer.fit(net, toy::batches(4), NoValidation{});
#else
  trainer.fit(net, toy::batches(4));
#endif
}
