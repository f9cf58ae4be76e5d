// refused: [fulgurite.hook.near_miss] setMomentum is not a hook and would never be called: use set_momentum
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Own : toy::Sgd {
#ifdef LEGAL
  void set_momentum(std::size_t, double) {}
#else
  void setMomentum(std::size_t, double) {}
#endif
};
struct Net : toy::P {
  Own configure_optimizers() { return {{{p}}}; }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
