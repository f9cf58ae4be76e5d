// refused: [fulgurite.metric.several] the numbers of this metric go to loggers and results alone, once an evaluation: leave .prog_bar, .logger, .on_step and .on_epoch out of its declaration
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

/// The sum, and the sum of squares.
struct Sums {
  static constexpr std::size_t sums() { return 2; }
  std::vector<double> tally(double value) const { return {value, value * value}; }
  std::vector<double> compute(std::span<double const> sums) const { return {sums[0], sums[1]}; }
  template <class F>
  void each(std::vector<double> const& value, F&& f) const {
    f("sum", value[0]), f("squares", value[1]);
  }
};

struct Net : toy::P {
#ifdef LEGAL
  static constexpr Metric<"val/sums", Sums> sums{};
#else
  static constexpr Metric<"val/sums", Sums> sums{.prog_bar = true};
#endif
  using Metrics = MetricList<toy::P::loss, sums>;
  void validation_step(double batch, auto& ctx) { ctx.update(sums, batch); }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4), toy::batches(2));
}
