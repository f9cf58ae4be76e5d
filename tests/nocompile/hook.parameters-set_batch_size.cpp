// refused: [fulgurite.hook.parameters] set_batch_size cannot be called: make it a public function, set_batch_size(long rows)
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Numbers : toy::Unsized {
  using toy::Unsized::Unsized;
#ifdef LEGAL
  void set_batch_size(long) {}
#else
  void set_batch_size() {}
#endif
};

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, Numbers{4});
}
