// refused: [fulgurite.model.metrics] the model's Metrics is no list of its metrics: write `using Metrics = MetricList<loss>` after `static constexpr Metric<"loss"> loss{}`
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
#ifdef LEGAL
  using Metrics = MetricList<loss>;
#else
  using Metrics = MetricList<1, 2>;
#endif
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
