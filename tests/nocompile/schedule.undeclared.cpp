// refused: [fulgurite.schedule.undeclared] a schedule follows a metric that the model does not declare: add it to the model's `using Metrics = MetricList<...>`
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>
#include <fulgurite/schedule/schedule.hpp>

using namespace fulgurite;

struct Net : toy::P {
  static constexpr Metric<"val/loss"> val_loss{};
#ifdef LEGAL
  using Metrics = MetricList<toy::P::loss, val_loss>;
#endif
  auto configure_optimizers() { return scheduled(toy::Sgd{{p}}, schedule::ReduceOnPlateau{val_loss}); }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
