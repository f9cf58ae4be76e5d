// refused: [fulgurite.model.optimizer_type] configure_optimizers must return by value an optimizer, scheduled(optimizer, schedule), or optimizers(a, b)
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
#ifdef LEGAL
  toy::Sgd configure_optimizers() {
    return {{ p }};
  }
#else
  auto configure_optimizers() { return optimizers(toy::Sgd{{p}}, 0.1); }
#endif
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
