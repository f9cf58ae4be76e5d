// refused: [fulgurite.data.sequential] a fit cannot take combined loaders one after the other: choose min_size, max_size or max_size_cycle; for evaluation pass a std::tuple
#include <toy.hpp>

#include <fulgurite/data/combined.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
  toy::Tensor training_step(std::tuple<double, double>&) { return -p; }
};

int main() {
#ifdef LEGAL
  constexpr auto mode = data::CombineMode::max_size_cycle;
#else
  constexpr auto mode = data::CombineMode::sequential;
#endif
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, data::combined<mode>(toy::batches(3), toy::batches(4)));
}
