// refused: [fulgurite.callback.twice] two callbacks have the same type: leave one out, or derive a type for the second
#include <toy.hpp>

#include <fulgurite/callback/progress_bar.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
#ifdef LEGAL
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, ProgressBar{});
#else
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{},
                                      ProgressBar{}, ProgressBar{});
#endif
  trainer.fit(net, toy::batches(4));
}
