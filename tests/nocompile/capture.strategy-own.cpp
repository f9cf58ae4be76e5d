// refused: [fulgurite.capture.strategy] Captured cannot replay the steps of this strategy: use SingleDevice, or the strategy without Captured
#include <recording.hpp>

#include <fulgurite/loop/trainer.hpp>
#include <fulgurite/policy/policies.hpp>

using namespace fulgurite;

#ifdef LEGAL
/// A strategy of one's own is taught to replay by a specialization.
template <>
class fulgurite::Captured<toy::Device> : public toy::Recording {
 public:
  explicit Captured(toy::Device) {}
};
#endif

struct Net : toy::P {
  toy::Tensor training_step(toy::Tensor const& batch) { return p * batch; }
};

int main() {
  Net net;
  auto const strategy = Captured{toy::Device{}};
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, strategy, Float32{}, Automatic{});
  trainer.fit(net, std::vector<toy::Tensor>(4));
}
