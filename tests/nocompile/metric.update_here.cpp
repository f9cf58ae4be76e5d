// refused: [fulgurite.metric.update_here] ctx.update counts in validation and test: for training keep a metric::Meter in the model, update it in on_train_batch_end, and log its compute(ctx) in on_train_epoch_end
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
  static constexpr Metric<"square", Square> square{};
  using Metrics = MetricList<toy::P::loss, square>;
#ifdef LEGAL
  void validation_step(double batch, auto& ctx) { ctx.update(square, batch); }
#else
  void validation_step(double) {}
  void on_train_batch_end(auto& ctx) { ctx.update(square, 1.0); }
#endif
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4), toy::batches(2));
}
