// refused: [fulgurite.capture.skip] training_step may return nothing, which this strategy would not notice, since it replays steps without checks: return a loss for every batch, or use Captured
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

/// A strategy that records its step once and replays it.
struct Recorded : toy::Device {
  static constexpr bool captures = true;
};
struct Net : toy::P {
#ifdef LEGAL
  toy::Tensor training_step(double) { return -p; }
#else
  std::optional<toy::Tensor> training_step(double batch) { return batch > 1 ? std::optional(-p) : std::nullopt; }
#endif
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, Recorded{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
