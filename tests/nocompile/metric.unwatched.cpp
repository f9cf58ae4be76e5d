// refused: [fulgurite.metric.unwatched] a callback watches a metric that the model does not declare: add it to the model's `using Metrics = MetricList<...>`
#include <toy.hpp>

#include <fulgurite/callback/early_stopping.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
  static constexpr Metric<"val/loss"> val_loss{};
#ifdef LEGAL
  using Metrics = MetricList<loss, val_loss>;
#endif
  void validation_step(double batch, auto& ctx) { ctx.log(loss, batch); }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{},
                                   EarlyStopping{Net::val_loss});
  trainer.fit(net, toy::batches(4), toy::batches(2));
}
