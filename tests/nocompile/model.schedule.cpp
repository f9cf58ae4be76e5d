// refused: [fulgurite.model.schedule] the second argument of scheduled() is no schedule: pass one such as schedule::Cosine{100}, or a function from a number of steps (or epochs) to a factor
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
#ifdef LEGAL
  auto configure_optimizers() {
    return scheduled(toy::Sgd{{ p }}, [](long moves) { return 1.0 / static_cast<double>(1 + moves); });
  }
#else
  auto configure_optimizers() { return scheduled(toy::Sgd{{p}}, 0.1); }
#endif
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
