// refused: [fulgurite.data.state] the trainer's checkpoints would forget where this loader was: add `resume_at(long batch)` or `state(auto& archive)`; or `using Stateless = fulgurite::ByChoice`, and it is read from its beginning
#include <algorithm>
#include <filesystem>
#include <random>
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
/// Stores its batches, and shuffles them at the start of each pass.
struct Shuffled {
#ifdef LEGAL
  using Stateless = ByChoice;
#endif
  std::mt19937 random{1};
  std::vector<double> all{1, 2, 3};
  auto begin() {
    std::shuffle(all.begin(), all.end(), random);
    return all.begin();
  }
  auto end() { return all.end(); }
};

int main() {
  toy::P net;
  Shuffled loader;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Keeps{});
  trainer.fit(net, loader);
}
