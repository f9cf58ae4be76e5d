// refused: [fulgurite.callback.one_search] two callbacks search for the same (two learning rates, or two batch sizes), and the second would undo what the first one has found: keep one
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>
#include <fulgurite/tuner/learning_rate_finder.hpp>

using namespace fulgurite;

struct Net : toy::P {
  double lr = 0.1;
};
/// Searches again in the third epoch.
struct Later : LearningRateFinder<Net> {
  void on_fit_start(auto&) {}
  void on_train_epoch_start(auto& ctx) {
    if (ctx.current_epoch() == 2) this->lr_find(ctx);
  }
};

int main() {
  Net net;
#ifndef LEGAL
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{},
                                   LearningRateFinder<Net>{}, Later{});
#else
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Later{});
#endif
  trainer.fit(net, toy::batches(4));
}
