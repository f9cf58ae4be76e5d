// refused: [fulgurite.metric.undeclared] this metric is not in the model's `using Metrics = MetricList<...>`: add it there
#include <toy.hpp>

#include <fulgurite/loop/run_context.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Watcher {
  static constexpr Metric<"mine"> mine{};
#ifdef LEGAL
  void on_train_epoch_end(auto& ctx) { ctx.log(toy::P::loss, 1.0); }
#else
  void on_train_epoch_end(auto& ctx) { ctx.log(mine, 1.0); }
#endif
};

int main() {
  toy::P net;
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Watcher{});
  trainer.fit(net, toy::batches(4));
}
