// refused: [fulgurite.optimizer.closure_distributed] an optimizer that evaluates the loss several times a step would do so differently in each process: take another optimizer, or train in one process
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
#ifndef LEGAL
  toy::Repeating configure_optimizers() { return {{{p}}}; }
#endif
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Several{}, Float32{}, Automatic{});
  trainer.fit(net, toy::OwnPart<double>{toy::batches(4)});
}
