// refused: [fulgurite.hook.near_miss] finalise is not a hook and would never be called: use finalize
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Watcher {
  void log_metrics(std::span<Scalar const>, long) {}
#ifdef LEGAL
  void finalize(Status) {}
#else
  void finalise(Status) {}
#endif
};

int main() {
  toy::P net;
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Watcher{});
  trainer.fit(net, toy::batches(4));
}
