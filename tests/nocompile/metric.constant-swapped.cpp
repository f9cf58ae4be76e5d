// refused: [fulgurite.metric.constant] ctx.log takes a metric of the model, then its value, and no text: declare `static constexpr Metric<"loss"> loss{}` and write ctx.log(loss, value)
#include <toy.hpp>

#include <fulgurite/loop/run_context.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
  toy::Tensor training_step(double batch, auto& ctx) {
#ifdef LEGAL
    ctx.log(loss, batch);
#else
    ctx.log(batch, loss);
#endif
    return -p;
  }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
