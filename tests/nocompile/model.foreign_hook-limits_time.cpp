// refused: [fulgurite.model.foreign_hook] limits_time is never asked of a model: move it to a callback
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
#ifndef LEGAL
  bool limits_time() const { return true; }
#endif
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
