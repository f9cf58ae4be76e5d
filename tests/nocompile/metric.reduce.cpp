// refused: [fulgurite.metric.reduce] a mean of sums depends on how the data is cut into batches: leave `reduce` out of the metric's definition, count the samples in a further sum, and divide in compute
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

/// The mean square.
struct Square {
#ifdef LEGAL
  static constexpr std::size_t sums() { return 2; }
  std::vector<double> tally(double value) const { return {value * value, 1}; }
  double compute(std::span<double const> sums) const { return sums[0] / sums[1]; }
#else
  static constexpr Reduce reduce = Reduce::mean;
  static constexpr std::size_t sums() { return 1; }
  std::vector<double> tally(double value) const { return {value * value}; }
  double compute(std::span<double const> sums) const { return sums[0]; }
#endif
};

struct Net : toy::P {
  static constexpr Metric<"val/square", Square> square{};
  using Metrics = MetricList<toy::P::loss, square>;
  void validation_step(double batch, auto& ctx) { ctx.update(square, batch); }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4), toy::batches(2));
}
