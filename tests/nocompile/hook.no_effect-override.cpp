// refused: [fulgurite.hook.no_effect] optimizer_step returns Stop, but nothing can be stopped there: return void
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
#ifdef LEGAL
  void optimizer_step(auto& optimizer, auto closure) { optimizer.step(closure); }
#else
  Stop optimizer_step(auto& optimizer, auto closure) {
    optimizer.step(closure);
    return Stop{};
  }
#endif
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
