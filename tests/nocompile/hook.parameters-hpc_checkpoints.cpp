// refused: [fulgurite.hook.parameters] hpc_checkpoints cannot be called: make it a public function, hpc_checkpoints() or hpc_checkpoints(CheckpointSearch const& search)
#include <filesystem>
#include <vector>

#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Watcher {
  void on_train_start() {}
#ifdef LEGAL
  std::vector<std::filesystem::path> hpc_checkpoints() { return {}; }
#else
  std::vector<std::filesystem::path> hpc_checkpoints(std::filesystem::path const&) { return {}; }
#endif
};

int main() {
  toy::P net;
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Watcher{});
  trainer.fit(net, toy::batches(4));
}
