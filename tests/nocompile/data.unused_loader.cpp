// refused: [fulgurite.data.unused_loader] there is a validation loader, but the model has no validation_step: add one, or pass NoValidation{} as fit's third argument
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
#ifdef LEGAL
  void validation_step(double) {}
#endif
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4), toy::batches(2));
}
