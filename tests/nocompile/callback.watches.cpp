// refused: [fulgurite.callback.watches] the callback's `Watches` is no list of metrics: write `using Watches = MetricTypes<M>`, where M is the type of a metric
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Watcher {
#ifdef LEGAL
  using Watches = MetricTypes<Metric<"loss">>;
#else
  using Watches = toy::P::Metrics;
#endif
  void on_train_start() {}
};

int main() {
  toy::P net;
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Watcher{});
  trainer.fit(net, toy::batches(4));
}
