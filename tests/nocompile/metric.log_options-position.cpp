// refused: [fulgurite.metric.log_options] how a metric is reported is said where it is declared, `static constexpr Metric<"loss"> loss{.prog_bar = true}`: ctx.log takes the metric, its value and {.batch_size = n} alone
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
  auto training_step(double, auto& ctx) {
#ifdef LEGAL
    ctx.log(loss, -p, LogOptions{});
    return -p;
#else
    ctx.log(loss, -p, true);
    return -p;
#endif
  }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
