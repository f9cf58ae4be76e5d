// refused: [fulgurite.metric.undeclared] this metric is not in the model's `using Metrics = MetricList<...>`: add it there
#include <toy.hpp>

#include <fulgurite/loop/run_context.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
  static constexpr Metric<"accuracy"> accuracy{};
#ifdef LEGAL
  using Metrics = MetricList<loss, accuracy>;
#endif
  toy::Tensor training_step(double batch, auto& ctx) {
    ctx.log(accuracy, batch);
    return -p;
  }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
