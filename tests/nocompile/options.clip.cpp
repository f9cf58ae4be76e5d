// refused: [fulgurite.options.clip] clip: a limit is above 0; leave .clip out for no clipping
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
#ifdef LEGAL
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{},
                                      constant([] { return Automatic{.clip = ClipNorm{0.5}}; }));
#else
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{},
                                      constant([] { return Automatic{.clip = ClipNorm{-0.5}}; }));
#endif
  trainer.fit(net, toy::batches(4));
}
