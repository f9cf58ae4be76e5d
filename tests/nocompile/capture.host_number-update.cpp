// refused: [fulgurite.capture.host_number] a captured step is replayed without running your code, so a number that is counted in it would never change: update the metric with tensors
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

/// A strategy that records its step once and replays it.
struct Recorded : toy::Device {
  static constexpr bool captures = true;
};
/// The mean.
struct Mean {
  static constexpr std::size_t sums() { return 2; }
  std::vector<double> tally(double value) const { return {value, 1}; }
  std::vector<double> tally(toy::Tensor const& value) const { return tally(value.value()); }
  double compute(std::span<double const> sums) const { return sums[0] / sums[1]; }
};
struct Net : toy::P {
  static constexpr Metric<"mean", Mean> mean{};
  using Metrics = MetricList<toy::P::loss, mean>;
  toy::Tensor training_step(double, auto& ctx) {
    auto value = -p;
#ifdef LEGAL
    ctx.update(mean, value);
#else
    ctx.update(mean, value.value());
#endif
    return value;
  }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, Recorded{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
