// refused: [fulgurite.hook.near_miss] train_step is not a hook and would never be called: use training_step
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net {
  toy::Tensor p = toy::Tensor::parameter(0.0);
#ifdef LEGAL
  toy::Tensor training_step(double batch) { return p * batch; }
#else
  toy::Tensor train_step(double batch) { return p * batch; }
#endif
  toy::Sgd configure_optimizers() { return {{p}}; }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
