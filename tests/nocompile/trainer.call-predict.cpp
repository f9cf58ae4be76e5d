// refused: [fulgurite.trainer.call] fit takes the model, its training data and perhaps validation data: trainer.fit(net, train, val); validate, test and predict take the model and data: trainer.test(net, data); a file to resume from is the last argument: CkptPath{"last"}
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
  double predict_step(double batch) { return batch; }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
#ifdef LEGAL
  auto predictions = trainer.predict(net, toy::batches(4));
#else
  auto predictions = trainer.predict(net);
#endif
  return static_cast<int>(predictions.size());
}
