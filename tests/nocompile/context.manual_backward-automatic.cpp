// refused: [fulgurite.context.manual_backward] Lightning's manual_backward is called backward here: write ctx.backward(loss) in a manual training_step
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
  auto training_step(double, auto& ctx) {
#ifdef LEGAL
    ctx.log(loss, -p);
    return -p;
#else
    ctx.manual_backward(-p);
    return -p;
#endif
  }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
