// refused: [fulgurite.metric.unreported] this metric is reported neither per step nor per epoch: remove one `Report::no`, or say `.logger = false` if only callbacks read it
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
#ifdef LEGAL
  static constexpr Metric<"norm"> norm{.logger = false, .on_step = Report::no, .on_epoch = Report::no};
#else
  static constexpr Metric<"norm"> norm{.on_step = Report::no, .on_epoch = Report::no};
#endif
  using Metrics = MetricList<toy::P::loss, norm>;
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
