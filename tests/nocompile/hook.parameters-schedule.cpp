// refused: [fulgurite.hook.parameters] momentum of this schedule cannot be called: make it a public function, momentum(long moves) const
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Own : toy::Sgd {
  double momentum(std::size_t) const { return 0.9; }
  void set_momentum(std::size_t, double) {}
};
struct Halves {
  using Stateless = ByChoice;
  double operator()(long moves) const { return 1.0 / static_cast<double>(1 + moves); }
#ifdef LEGAL
  double momentum(long) const { return 0.9; }
#else
  double momentum(long) { return 0.9; }
#endif
};
struct Net : toy::P {
  auto configure_optimizers() { return scheduled(Own{{{p}}}, Halves{}); }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
