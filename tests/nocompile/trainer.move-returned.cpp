// refused: [fulgurite.trainer.move] a trainer stays where it was made, since its callbacks and runs refer to it: return make_trainer<Net>(...) itself, or keep `new auto(make_trainer<Net>(...))` in a std::unique_ptr
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

auto made() {
#ifdef LEGAL
  return make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
#else
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  return trainer;
#endif
}

int main() {
  toy::P net;
  made().fit(net, toy::batches(4));
}
