// refused: [fulgurite.data.no_loader] data::combined joins loaders, which are ranges of batches: pass it loaders alone, data::combined(first, second)
#include <toy.hpp>

#include <fulgurite/data/combined.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
  toy::Tensor training_step(std::tuple<double, double>&) { return -p; }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
#ifdef LEGAL
  auto both = data::combined(toy::batches(3), toy::batches(4));
#else
  auto both = data::combined(toy::batches(3), 4);
#endif
  trainer.fit(net, both);
}
