// refused: [fulgurite.trainer.call] fit takes the model, its training data and perhaps validation data: trainer.fit(net, train, val); validate, test and predict take the model and data: trainer.test(net, data); a file to resume from is the last argument: CkptPath{"last"}
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Validated : toy::P {
  void validation_step(double) {}
};

int main() {
  Validated net;
  auto trainer = make_trainer<Validated>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4), toy::batches(1));
#ifdef LEGAL
  trainer.validate(net, toy::batches(1));
#else
  trainer.validate(toy::batches(1));  // which weights are meant is never guessed
#endif
}
