// refused: [fulgurite.callback.no_such_option] this class has no such option, or its value has another type: the options of ProgressBar{{.leave = true}} are the members of ProgressBarOptions, and likewise for other classes
// g++: [with fulgurite_callback_no_such_option_of = fulgurite::ProgressBarOptions]
#include <toy.hpp>

#include <fulgurite/callback/progress_bar.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
#ifdef LEGAL
  ProgressBar callback{{.columns = 80}};
#else
  ProgressBar callback{{.colums = 80}};
#endif
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, std::move(callback));
  trainer.fit(net, toy::batches(4));
}
