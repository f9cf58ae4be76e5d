// refused: [fulgurite.hook.parameters] configure_gradient_clipping cannot be called: make it a public function, configure_gradient_clipping(auto& optimizer, Clip clip, auto& ctx)
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
#ifdef LEGAL
  void configure_gradient_clipping(auto& optimizer, Clip clip, auto& ctx) { ctx.clip_gradients(optimizer, clip); }
#else
  void configure_gradient_clipping(auto&) {}
#endif
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
