// refused: [fulgurite.model.hidden_split] tbptt_split_batch is only called for a model that carries a state from slice to slice: add `using Hidden = ...`
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
#ifndef LEGAL
  std::vector<double> tbptt_split_batch(double batch, long) { return {batch}; }
#endif
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
