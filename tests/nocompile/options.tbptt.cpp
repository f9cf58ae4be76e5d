// refused: [fulgurite.options.tbptt] tbptt: it steps after each slice, accumulate_grad_batches after several batches: use one of them
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
                                      constant([] { return Automatic{.accumulate_grad_batches = 2, .tbptt = 8}; }));
#endif
  trainer.fit(net, toy::batches(4));
}
