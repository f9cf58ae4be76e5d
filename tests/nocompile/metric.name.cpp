// refused: [fulgurite.metric.name] a metric's name must not contain "/dataloader_idx_", which is added for several loaders: choose another name
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
#ifdef LEGAL
  static constexpr Metric<"second"> second{};
#else
  static constexpr Metric<"loss/dataloader_idx_1"> second{};
#endif
  using Metrics = MetricList<toy::P::loss, second>;
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
