// refused: [fulgurite.metric.name_as_value] a metric's name is part of its type: write it in angle brackets, `static constexpr Metric<"loss"> loss{}`, and options such as .prog_bar = true in the braces
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
#ifdef LEGAL
  static constexpr Metric<"again"> again{.prog_bar = true};
#else
  static constexpr Metric again{"again"};
#endif
  using Metrics = MetricList<again>;
  auto training_step(double, auto& ctx) {
    ctx.log(again, -p);
    return -p;
  }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
