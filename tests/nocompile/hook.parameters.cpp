// refused: [fulgurite.hook.parameters] on_train_batch_end cannot be called: make it a public function, on_train_batch_end(auto& outputs, auto& batch, auto& ctx)
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Watcher {
#ifdef LEGAL
  void on_train_batch_end(double, auto&) {}
#else
  void on_train_batch_end(int*, auto&) {}
#endif
};

int main() {
  toy::P net;
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Watcher{});
  trainer.fit(net, toy::batches(4));
}
