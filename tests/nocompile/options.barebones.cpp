// refused: [fulgurite.options.barebones] barebones: it runs the loop alone: leave fast_dev_run out
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
#ifdef LEGAL
  auto trainer = make_trainer<toy::P>(constant([] { return TrainerOptions{.max_epochs = 1, .barebones = true}; }),
                                      toy::Device{}, Float32{}, Automatic{});
#else
  auto trainer = make_trainer<toy::P>(
      constant([] { return TrainerOptions{.max_epochs = 1, .fast_dev_run = 1, .barebones = true}; }), toy::Device{},
      Float32{}, Automatic{});
#endif
  trainer.fit(net, toy::batches(4));
}
