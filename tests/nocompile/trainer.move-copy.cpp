// refused: [fulgurite.trainer.move] a trainer stays where it was made, since its callbacks and runs refer to it: return make_trainer<Net>(...) itself, or keep `new auto(make_trainer<Net>(...))` in a std::unique_ptr
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
#ifdef LEGAL
  auto& other = trainer;
#else
  auto other = trainer;
#endif
  other.fit(net, toy::batches(4));
}
