// refused: [fulgurite.hook.near_miss] clip_gradients is not a hook and would never be called: use configure_gradient_clipping
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
#ifdef LEGAL
  void configure_gradient_clipping(auto& optimizer, Clip clip, auto& ctx) { ctx.clip_gradients(optimizer, clip); }
#else
  void clip_gradients(auto&, Clip) {}
#endif
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
