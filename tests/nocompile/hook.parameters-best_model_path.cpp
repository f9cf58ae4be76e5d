// refused: [fulgurite.hook.parameters] best_model_path cannot be called: make it a public function, best_model_path(), whose answer is a std::filesystem::path
#include <filesystem>

#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Watcher {
  void on_train_start() {}
#ifdef LEGAL
  std::filesystem::path best_model_path() const { return {}; }
#else
  int best_model_path() const { return 0; }
#endif
};

int main() {
  toy::P net;
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Watcher{});
  trainer.fit(net, toy::batches(4));
}
