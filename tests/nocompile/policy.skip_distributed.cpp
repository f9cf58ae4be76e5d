// refused: [fulgurite.policy.skip_distributed] training_step may return nothing, which other processes would wait for: return a loss for every batch, or train in one process
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

#ifdef LEGAL
using Many = toy::Device;
#else
using Many = toy::Several;
#endif
struct Net : toy::P {
  std::optional<toy::Tensor> training_step(double batch) { return batch > 1 ? std::optional(-p) : std::nullopt; }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, Many{}, Float32{}, Automatic{});
  trainer.fit(net, toy::OwnPart<double>{toy::batches(4)});
}
