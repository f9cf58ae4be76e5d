// refused: [fulgurite.hook.parameters] set_epoch cannot be called: make it a public function, set_epoch(long epoch)
#include <toy.hpp>

#include <fulgurite/data/combined.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Numbers : toy::Unsized {
  using toy::Unsized::Unsized;
#ifdef LEGAL
  void set_epoch(long) {}
#else
  void set_epoch() {}
#endif
};

struct Net : toy::P {
  toy::Tensor training_step(std::tuple<double, double>&) { return -p; }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, data::combined<data::CombineMode::min_size>(toy::batches(4), Numbers{4}));
}
