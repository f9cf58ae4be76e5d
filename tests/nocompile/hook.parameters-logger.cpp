// refused: [fulgurite.hook.parameters] log_metrics cannot be called: make it a public function, log_metrics(std::span<Scalar const> row, long step)
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Watcher {
#ifdef LEGAL
  void log_metrics(std::span<Scalar const>, long) {}
#else
  void log_metrics(double) {}
#endif
};

int main() {
  toy::P net;
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Watcher{});
  trainer.fit(net, toy::batches(4));
}
