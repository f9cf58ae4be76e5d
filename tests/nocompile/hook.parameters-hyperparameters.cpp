// refused: [fulgurite.hook.parameters] log_hyperparams cannot be called: make it a public function, log_hyperparams(auto const& hparams)
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Watcher {
#ifdef LEGAL
  void log_hyperparams(auto const&) {}
#else
  void log_hyperparams(double) {}
#endif
  void log_metrics(std::span<Scalar const>, long) {}
};

int main() {
  toy::P net;
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Watcher{});
  trainer.fit(net, toy::batches(4));
}
