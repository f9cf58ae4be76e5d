// refused: [fulgurite.policy.state] this policy has members that the trainer's checkpoints would forget: add `void state(auto& archive)`, or `using Stateless = fulgurite::ByChoice`
#include <filesystem>
#include <vector>

#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

/// A callback that leaves files.
struct Keeps {
  using Stateless = ByChoice;
  void on_train_start() {}
  std::vector<std::filesystem::path> last_checkpoints() const { return {}; }
};
struct Scales {
#ifdef LEGAL
  using Stateless = ByChoice;
#endif
  static constexpr Dtype parameters = Dtype::float32, compute = Dtype::float32;
  static constexpr bool autocasts = false, scales_loss = false;
  double scale = 1;
};

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Scales{}, Automatic{}, Keeps{});
  trainer.fit(net, toy::batches(4));
}
