// refused: [fulgurite.options.limit_truth] a limit is a count or a part, not yes or no: write Batches{1}, or leave it out for all batches
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
#ifdef LEGAL
  TrainerOptions options{.max_epochs = 1, .limit_train_batches = 1};
#else
  TrainerOptions options{.max_epochs = 1, .limit_train_batches = true};
#endif
  auto trainer = make_trainer<toy::P>(options, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
