// refused: [fulgurite.hook.parameters] batch_size cannot be called: make it a public function, batch_size() const, whose answer is a number
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Numbers : toy::Unsized {
  using toy::Unsized::Unsized;
  void set_batch_size(long) {}
#ifdef LEGAL
  long batch_size() const { return 1; }
#else
  long batch_size() { return 1; }
#endif
};

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, Numbers{4});
}
