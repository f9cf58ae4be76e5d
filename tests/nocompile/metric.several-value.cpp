// refused: [fulgurite.metric.several] this metric's definition computes several numbers, which go to the loggers and results alone: keep a metric::Meter of it in the model, and compute() it
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
  static constexpr Metric<"val/sums", Sums> sums{};
  using Metrics = MetricList<toy::P::loss, sums>;
  void validation_step(double batch, auto& ctx) { ctx.update(sums, batch); }
#ifndef LEGAL
  void on_validation_epoch_end(auto& ctx) { ctx.print(std::to_string(*ctx.value(sums))); }
#endif
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4), toy::batches(2));
}
