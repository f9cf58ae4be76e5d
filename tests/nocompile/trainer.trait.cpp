// refused: [fulgurite.trainer.trait] a trait, such as needs_logger or acts_on_tensors, is asked for while compiling, and here it is a variable: write `static constexpr bool`
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Tries {
  using Stateless = ByChoice;
#ifdef LEGAL
  static constexpr bool needs_single_process = true;
#else
  bool needs_single_process = true;
#endif
  void setup() {}
};

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Tries{});
  trainer.fit(net, toy::batches(4));
}
