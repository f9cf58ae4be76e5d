// refused: [fulgurite.metric.one_number] this metric's definition computes no single number, so it cannot be reported: name its numbers by each(value, f), or keep a metric::Meter of it in the model
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

/// The mean square.
struct Square {
  double scale = 1;
  static constexpr std::size_t sums() { return 2; }
  constexpr char const* fault() const { return scale > 0 ? nullptr : ".scale is above 0"; }
  std::vector<double> tally(double value) const { return {value * value * scale, 1}; }
  double compute(std::span<double const> sums) const { return sums[0] / sums[1]; }
};

struct Pair : Square {
  std::vector<double> compute(std::span<double const> sums) const { return {sums[0], sums[1]}; }
};

struct Net : toy::P {
#ifdef LEGAL
  static constexpr Metric<"val/square", Square> square{};
#else
  static constexpr Metric<"val/square", Pair> square{};
#endif
  using Metrics = MetricList<toy::P::loss, square>;
  void validation_step(double batch, auto& ctx) { ctx.update(square, batch); }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4), toy::batches(2));
}
