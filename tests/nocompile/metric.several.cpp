// refused: [fulgurite.metric.several] a callback watches one number, and this metric's definition computes several: declare a metric for the one that counts
#include <toy.hpp>

#include <fulgurite/callback/early_stopping.hpp>
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
  static constexpr Metric<"val/loss"> val_loss{};
  using Metrics = MetricList<toy::P::loss, sums, val_loss>;
  void validation_step(double batch, auto& ctx) {
    ctx.update(sums, batch);
    ctx.log(val_loss, batch);
  }
};

int main() {
  Net net;
#ifdef LEGAL
  EarlyStopping stopping{Net::val_loss};
#else
  EarlyStopping stopping{Net::sums};
#endif
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, stopping);
  trainer.fit(net, toy::batches(4), toy::batches(2));
}
