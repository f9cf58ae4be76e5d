// refused: [fulgurite.hook.parameters] continue_in cannot be called: make it a public function, continue_in(std::filesystem::path folder)
#include <filesystem>

#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Watcher {
  void log_metrics(std::span<Scalar const>, long) {}
#ifdef LEGAL
  void continue_in(std::filesystem::path const&) {}
#else
  void continue_in() {}
#endif
};

int main() {
  toy::P net;
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Watcher{});
  trainer.fit(net, toy::batches(4));
}
