// refused: [fulgurite.trainer.trait] a trait, such as needs_logger or acts_on_tensors, is asked for while compiling, and here it is a variable: write `static constexpr bool`
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Device : toy::Device {
#ifdef LEGAL
  long moves = 0;  // no template: its own count of batches
#else
  template <class Batch>
  static inline bool moves = true;
#endif
};

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
