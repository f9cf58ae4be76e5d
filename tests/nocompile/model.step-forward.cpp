// refused: [fulgurite.model.step] the model has no predict_step, which this call runs: add it
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

// Lightning would predict with forward.
struct Net : toy::P {
  double forward(double batch) { return 2 * batch; }
#ifdef LEGAL
  double predict_step(double batch) { return forward(batch); }
#endif
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.predict(net, toy::batches(4));
}
