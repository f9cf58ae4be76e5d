// refused: [fulgurite.metric.twice] two entries of the model's Metrics have the same name, or one has the name of another's rows, such as loss_epoch: give each metric its own
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
  static constexpr Metric<"error"> error{.on_step = true, .on_epoch = true};
#ifdef LEGAL
  static constexpr Metric<"error_total"> total{.on_step = false, .on_epoch = true};
#else
  static constexpr Metric<"error_epoch"> total{.on_step = false, .on_epoch = true};
#endif
  using Metrics = MetricList<loss, error, total>;
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
