// refused: [fulgurite.hook.parameters] agree of this strategy cannot be called: make it a public function, agree(bool any)
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Own : toy::Device {
#ifdef LEGAL
  bool agree(bool any) const { return any; }
#else
  bool agree() const { return true; }
#endif
};

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, Own{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
