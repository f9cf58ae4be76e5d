// refused: [fulgurite.metric.value] ctx.log takes a tensor of one element or a number: log its mean(), or the sum()
#include <toy.hpp>

#include <fulgurite/loop/run_context.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
  toy::Tensor training_step(double batch, auto& ctx) {
#ifdef LEGAL
    ctx.log(loss, batch);
#else
    ctx.log(loss, "high");
#endif
    return p * batch;
  }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
