// refused: [fulgurite.trainer.options_twice] make_trainer is given TrainerOptions twice: write all of them into the first
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
#ifdef LEGAL
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, NoDefaults{});
#else
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{},
                                      TrainerOptions{.max_steps = 1});
#endif
  trainer.fit(net, toy::batches(4));
}
