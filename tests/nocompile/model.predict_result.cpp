// refused: [fulgurite.model.predict_result] predict_step must return the batch's prediction, not void: the call collects them
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
#ifdef LEGAL
  double predict_step(double batch) { return batch + p.value(); }
#else
  void predict_step(double) {}
#endif
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  auto predictions = trainer.predict(net, toy::batches(4));
  return predictions.empty() ? 1 : 0;
}
