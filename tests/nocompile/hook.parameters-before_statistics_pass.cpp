// refused: [fulgurite.hook.parameters] before_statistics_pass cannot be called: make it a public function, before_statistics_pass(auto& ctx)
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Watcher {
  void on_train_start() {}
#ifdef LEGAL
  void before_statistics_pass(auto&) {}
#else
  void before_statistics_pass() {}
#endif
};

int main() {
  toy::P net;
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Watcher{});
  trainer.fit(net, toy::batches(4));
}
