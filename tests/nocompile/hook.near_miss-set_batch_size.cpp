// refused: [fulgurite.hook.near_miss] setBatchSize is not a hook and would never be called: use set_batch_size
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Numbers : toy::Unsized {
  using toy::Unsized::Unsized;
#ifdef LEGAL
  void set_batch_size(long) {}
#else
  void setBatchSize(long) {}
#endif
};

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, Numbers{4});
}
