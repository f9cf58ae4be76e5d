// refused: [fulgurite.capture.host_number] a captured step is replayed without running your code, so a number logged in it would never change: log a tensor
#include <toy.hpp>

#include <fulgurite/loop/run_context.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

/// A strategy that records its step once and replays it.
struct Recorded : toy::Device {
  static constexpr bool captures = true;
};
struct Net : toy::P {
  toy::Tensor training_step(double, auto& ctx) {
    auto value = -p;
#ifdef LEGAL
    ctx.log(loss, value);
#else
    ctx.log(loss, value.value());
#endif
    return value;
  }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, Recorded{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
