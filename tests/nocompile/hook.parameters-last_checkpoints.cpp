// refused: [fulgurite.hook.parameters] last_checkpoints cannot be called: make it a public function, last_checkpoints() or last_checkpoints(CheckpointSearch const& search)
#include <filesystem>
#include <vector>

#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Watcher {
  void on_train_start() {}
#ifdef LEGAL
  std::vector<std::filesystem::path> last_checkpoints(CheckpointSearch const&) { return {}; }
#else
  std::vector<std::filesystem::path> last_checkpoints(int) { return {}; }
#endif
};

int main() {
  toy::P net;
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Watcher{});
  trainer.fit(net, toy::batches(4));
}
