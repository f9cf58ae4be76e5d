// refused: [fulgurite.hook.parameters] in_order cannot be called: make it a public function, in_order(bool on)
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Numbers : toy::Unsized {
  using toy::Unsized::Unsized;
#ifdef LEGAL
  void in_order(bool) {}
#else
  bool in_order = false;
#endif
};

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, Numbers{4});
}
