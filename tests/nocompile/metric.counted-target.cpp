// refused: [fulgurite.metric.counted] this metric is declared with a definition, which has the formula: ctx.update(metric, predictions, target) counts a batch for it
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

struct Net : toy::P {
  static constexpr Metric<"val/square", Square> square{};
  using Metrics = MetricList<toy::P::loss, square>;
  void validation_step(double batch, auto& ctx) {
#ifdef LEGAL
    ctx.update(square, batch);
#else
    ctx.log(square, batch, 2 * batch);
#endif
  }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4), toy::batches(2));
}
