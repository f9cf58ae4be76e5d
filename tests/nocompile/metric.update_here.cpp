// refused: [fulgurite.metric.update_here] ctx.update does not work here: call it in a step, or in a hook of a batch, of training, validation or test
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
  void validation_step(double batch, auto& ctx) { ctx.update(square, batch); }
#ifdef LEGAL
  void on_train_batch_end(auto& ctx) { ctx.update(square, 1.0); }
#else
  void on_train_end(auto& ctx) { ctx.update(square, 1.0); }
#endif
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4), toy::batches(2));
}
