// refused: [fulgurite.hook.near_miss] resumeAt is not a hook and would never be called: use resume_at
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Numbers : toy::Unsized {
  using toy::Unsized::Unsized;
#ifdef LEGAL
  void resume_at(long) {}
#else
  void resumeAt(long) {}
#endif
};

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, Numbers{4});
}
