// refused: [fulgurite.callback.needs_logger] a callback writes to the loggers, and there is none: add CSVLogger{}
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

/// Writes rows of its own.
struct Rates {
  static constexpr bool needs_logger = true;
  void on_train_batch_start() {}
};
struct Lines {
  void log_metrics(std::span<Scalar const>, long) {}
};

int main() {
  toy::P net;
#ifdef LEGAL
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Rates{}, Lines{});
#else
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Rates{});
#endif
  trainer.fit(net, toy::batches(4));
}
