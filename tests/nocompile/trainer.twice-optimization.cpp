// refused: [fulgurite.trainer.twice] make_trainer is given two optimizations: keep one of Automatic{...} and Manual{}
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

// W94: a precision that is given twice.
int main() {
  toy::P net;
#ifdef LEGAL
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
#else
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Manual{});
#endif
  trainer.fit(net, toy::batches(4));
}
