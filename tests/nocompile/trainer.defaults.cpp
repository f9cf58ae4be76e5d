// refused: [fulgurite.trainer.defaults] make_trainer takes from the defaults what it is not told: #include <fulgurite/defaults.hpp>, or name strategy, precision and optimization, and no word as NoLogger
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
#ifdef LEGAL
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
#else
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{});
#endif
  trainer.fit(net, toy::batches(4));
}
