// refused: [fulgurite.options.range] max_epochs: the number of epochs is at least 0, or -1 for no limit
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
#ifdef LEGAL
  auto trainer = make_trainer<toy::P>(constant([] { return TrainerOptions{.max_epochs = 2}; }), toy::Device{},
                                      Float32{}, Automatic{});
#else
  auto trainer = make_trainer<toy::P>(constant([] { return TrainerOptions{.max_epochs = -2}; }), toy::Device{},
                                      Float32{}, Automatic{});
#endif
  trainer.fit(net, toy::batches(4));
}
