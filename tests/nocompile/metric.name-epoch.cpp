// refused: [fulgurite.metric.name] a metric's name must not be "epoch", which is a column of every row of the log: choose another name
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
#ifdef LEGAL
  static constexpr Metric<"second"> second{};
#else
  static constexpr Metric<"epoch"> second{};
#endif
  using Metrics = MetricList<toy::P::loss, second>;
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
