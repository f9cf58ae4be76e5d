// refused: [fulgurite.data.opaque_batch] this batch type cannot be looked into, so its tensors would not reach the GPU: give it `Batch to(torch::Device) const`
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

/// Moves what says how.
struct Card : toy::Gpu {
  template <class Batch>
  static constexpr bool moves = requires(Batch const& batch) { batch.to(0); };
};
struct Sample {
#ifdef LEGAL
  Sample to(int) const { return *this; }
#endif
};
struct Net : toy::P {
  toy::Tensor training_step(Sample const&) { return -p; }
};

int main() {
  Net net;
  std::vector<Sample> batches(4);
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, Card{}, Float32{}, Automatic{});
  trainer.fit(net, batches);
}
