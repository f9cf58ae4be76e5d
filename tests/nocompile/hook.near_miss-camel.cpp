// refused: [fulgurite.hook.near_miss] configureOptimizers is not a hook and would never be called: use configure_optimizers
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net {
  toy::Tensor p = toy::Tensor::parameter(0.0);
  toy::Tensor training_step(double batch) { return p * batch; }
#ifdef LEGAL
  toy::Sgd configure_optimizers() { return {{p}}; }
#else
  toy::Sgd configureOptimizers() { return {{p}}; }
#endif
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
