// refused: [fulgurite.hook.parameters] finalize cannot be called: make it a public function, finalize(Status status)
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Watcher {
  void log_metrics(std::span<Scalar const>, long) {}
#ifdef LEGAL
  void finalize(Status) {}
#else
  void finalize(bool) {}
#endif
};

int main() {
  toy::P net;
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Watcher{});
  trainer.fit(net, toy::batches(4));
}
