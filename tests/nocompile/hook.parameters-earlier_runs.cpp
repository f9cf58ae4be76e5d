// refused: [fulgurite.hook.parameters] earlier_runs cannot be called: make it a public function, earlier_runs(TrainerOptions const& options)
#include <filesystem>
#include <vector>

#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Watcher {
  void log_metrics(std::span<Scalar const>, long) {}
#ifdef LEGAL
  std::vector<std::filesystem::path> earlier_runs(TrainerOptions const&) const { return {}; }
#else
  std::vector<std::filesystem::path> earlier_runs() const { return {}; }
#endif
};

int main() {
  toy::P net;
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Watcher{});
  trainer.fit(net, toy::batches(4));
}
