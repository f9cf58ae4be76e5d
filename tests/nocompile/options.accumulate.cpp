// refused: [fulgurite.options.accumulate] accumulate_grad_batches: a window has at least 1 batch
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
#ifdef LEGAL
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{},
                                      constant([] { return Automatic{.accumulate_grad_batches = 2}; }));
#else
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{},
                                      constant([] { return Automatic{.accumulate_grad_batches = 0}; }));
#endif
  trainer.fit(net, toy::batches(4));
}
