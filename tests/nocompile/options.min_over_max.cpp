// refused: [fulgurite.options.min_over_max] min_epochs: above max_epochs: lower it, or raise max_epochs
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
#ifdef LEGAL
  auto trainer = make_trainer<toy::P>(constant([] { return TrainerOptions{.max_epochs = 3, .min_epochs = 2}; }),
                                      toy::Device{}, Float32{}, Automatic{});
#else
  auto trainer = make_trainer<toy::P>(constant([] { return TrainerOptions{.max_epochs = 3, .min_epochs = 5}; }),
                                      toy::Device{}, Float32{}, Automatic{});
#endif
  trainer.fit(net, toy::batches(4));
}
