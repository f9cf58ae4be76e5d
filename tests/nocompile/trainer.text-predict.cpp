// refused: [fulgurite.trainer.text] a file to resume from is CkptPath{"last"}, the last argument: a text is no data, and a loader is a range of batches
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
  double predict_step(double batch, auto&) { return batch; }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
#ifdef LEGAL
  trainer.predict(net, toy::batches(4));
#else
  trainer.predict(net, toy::batches(4), "best");
#endif
}
