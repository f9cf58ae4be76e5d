// refused: [fulgurite.options.left_out] what make_trainer adds is left out by an argument beside the options: write make_trainer<Net>(TrainerOptions{...}, NoProgressBar{}), NoCheckpoints{} or NoModelSummary{}
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
#ifdef LEGAL
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, NoDefaults{});
  trainer.fit(net, toy::batches(4));
#else
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1, .enable_progress_bar = false}, toy::Device{},
                                      Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
#endif
}
