// refused: [fulgurite.hook.parameters] no_sync cannot be called: make it a public function, no_sync(bool on)
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Own : toy::Device {
#ifdef LEGAL
  int no_sync(bool) { return 0; }
#else
  int no_sync() { return 0; }
#endif
};

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, Own{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
