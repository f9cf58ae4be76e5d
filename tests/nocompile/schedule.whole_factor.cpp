// refused: [fulgurite.schedule.whole_factor] this schedule returns a whole number, in which 1 / (1 + n) is 0: return a double, as 1.0 / (1.0 + n)
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
#ifdef LEGAL
  auto configure_optimizers() {
    return scheduled(toy::Sgd{{ p }}, [](long n) { return 1.0 / (1.0 + static_cast<double>(n)); });
  }
#else
  auto configure_optimizers() {
    return scheduled(toy::Sgd{{p}}, [](long n) { return 1 / (1 + n); });
  }
#endif
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
