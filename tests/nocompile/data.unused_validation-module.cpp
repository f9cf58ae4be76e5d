// refused: [fulgurite.data.unused_validation] the model has a validation_step, but no loader was given: pass one, give the data module val_dataloader(), or pass NoValidation{} as fit's third argument
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

/// A data module.
struct Data {
#ifdef LEGAL
  auto train_dataloader() { return toy::batches(4); }
  auto val_dataloader() { return toy::batches(2); }
#else
  auto train_dataloader() { return toy::batches(4); }
#endif
};
struct Net : toy::P {
  void validation_step(double) {}
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, Data{});
}
