// refused: [fulgurite.hook.parameters] rank of this strategy cannot be called: make it a public function, rank() const
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Own : toy::Device {
#ifdef LEGAL
  int rank() const { return 0; }
#else
  int rank() { return 0; }
#endif
};

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, Own{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
