// refused: [fulgurite.trainer.swapped] the model comes first, the data after it: write trainer.fit(model, data)
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
  void validation_step(double) {}
};

int main() {
  Net net;
  auto data = toy::batches(4);
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
#ifdef LEGAL
  trainer.fit(net, data, data);
#else
  trainer.fit(data, data, net);
#endif
}
