// refused: [fulgurite.metric.twice] two entries of the model's Metrics have the same name, or one has the name of another's rows, such as loss_epoch: give each metric its own
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
#ifdef LEGAL
  static constexpr Metric<"accuracy"> again{};
  using Metrics = MetricList<loss, again>;
#else
  static constexpr Metric<"loss"> again{};
  using Metrics = MetricList<loss, again>;
#endif
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
