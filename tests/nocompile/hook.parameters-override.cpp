// refused: [fulgurite.hook.parameters] optimizer_step cannot be called: make it a public function, optimizer_step(auto& optimizer, auto closure, auto& ctx)
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
#ifdef LEGAL
  void optimizer_step(auto& optimizer, auto closure) { optimizer.step(closure); }
#else
  void optimizer_step(toy::Sgd& optimizer) { optimizer.step(); }
#endif
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
