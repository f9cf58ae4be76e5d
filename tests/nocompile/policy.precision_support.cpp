// refused: [fulgurite.policy.precision_support] this strategy cannot compute in that precision: use one that it supports, such as Float32{}
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Wide : toy::Device {
  template <class P>
  static constexpr bool supports = !P::autocasts;
};
#ifdef LEGAL
int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, Wide{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
#else
int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, Wide{}, Bf16Mixed{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
#endif
