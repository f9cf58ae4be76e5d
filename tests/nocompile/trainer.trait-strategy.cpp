// refused: [fulgurite.trainer.trait] a trait, such as needs_logger or acts_on_tensors, is asked for while compiling, and here it is a variable: write `static constexpr bool`
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Shards : toy::Device {
#ifdef LEGAL
  static constexpr bool shards_parameters = true;
#else
  static inline bool shards_parameters = true;
#endif
};

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, Shards{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
