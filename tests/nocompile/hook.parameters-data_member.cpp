// refused: [fulgurite.hook.parameters] on_train_end cannot be called: make it a public function, on_train_end(auto& ctx)
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Watcher {
  using Stateless = ByChoice;
#ifdef LEGAL
  bool trained = true;
  void on_train_end() {}
#else
  bool on_train_end = true;
#endif
};

int main() {
  toy::P net;
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Watcher{});
  trainer.fit(net, toy::batches(4));
}
