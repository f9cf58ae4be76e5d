// refused: [fulgurite.options.optimization] accumulation and clipping are an argument beside the options: write make_trainer<Net>(TrainerOptions{...}, Automatic{.accumulate_grad_batches = 4, .clip = ClipNorm{1.0}})
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
#ifdef LEGAL
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{},
                                      Automatic{.accumulate_grad_batches = 4});
  trainer.fit(net, toy::batches(4));
#else
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1, .accumulate_grad_batches = 4}, toy::Device{},
                                      Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
#endif
}
