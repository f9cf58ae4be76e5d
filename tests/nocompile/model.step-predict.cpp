// refused: [fulgurite.model.step] the model has no predict_step, which this call runs: add it
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
#ifdef LEGAL
  double predict_step(double batch) { return batch; }
#endif
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  auto predictions = trainer.predict(net, toy::batches(4));
  return predictions.empty() ? 1 : 0;
}
