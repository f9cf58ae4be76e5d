// refused: [fulgurite.trainer.call] fit takes the model, its training data and perhaps validation data: trainer.fit(net, train, val); validate, test and predict take the model and data: trainer.test(net, data); a file to resume from is the last argument: CkptPath{"last"}
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
#ifdef LEGAL
  trainer.fit(net, toy::batches(4), NoValidation{}, CkptPath{"last.safetensors"});
#else
  trainer.fit(net, toy::batches(4), NoValidation{}, "last.safetensors");
#endif
}
