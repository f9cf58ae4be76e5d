// refused: [fulgurite.policy.precision_function] nothing is called on a precision, whose constants say all, and this one has a function that is called, or nearly so, as a hook: move it to the model or a callback, or to a strategy of your own
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Own : Float32 {
#ifndef LEGAL
  void on_train_start(int) {}
#endif
};

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Own{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
