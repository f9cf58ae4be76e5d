// refused: [fulgurite.data.unused_loader] there is a validation loader, but the model has no validation_step: add one, or pass NoValidation{} as fit's third argument
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {};
/// A data module.
struct Data {
  auto train_dataloader() { return toy::batches(4); }
  auto val_dataloader() { return toy::batches(2); }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
#ifdef LEGAL
  trainer.fit(net, Data{}, NoValidation{});
#else
  trainer.fit(net, Data{});
#endif
}
