// refused: [fulgurite.capture.hidden] this strategy replays steps without checks, so it does not take the state that slices of a batch hand on: use Captured, or remove `using Hidden`
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
  using Hidden = toy::Tensor;
  struct Result {
    toy::Tensor loss, hidden;
  };
  Result training_step(double, std::optional<Hidden> const&) { return {-p, -p}; }
#endif
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, Recorded{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
