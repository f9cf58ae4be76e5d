// refused: [fulgurite.hook.parameters] state_key cannot be called: make it a public function, state_key() const, whose answer is a std::string
#include <string>

#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Watcher {
  void on_train_start() {}
#ifdef LEGAL
  std::string state_key() const { return "mine"; }
#else
  std::string state_key() { return "mine"; }
#endif
};

int main() {
  toy::P net;
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Watcher{});
  trainer.fit(net, toy::batches(4));
}
