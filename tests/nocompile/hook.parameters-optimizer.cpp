// refused: [fulgurite.hook.parameters] on_before_optimizer_step cannot be called: make it a public function, on_before_optimizer_step(auto& optimizer, auto& ctx)
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Watcher {
#ifdef LEGAL
  void on_before_optimizer_step(toy::Sgd&, auto&) {}
#else
  void on_before_optimizer_step(double&, auto&) {}
#endif
};

int main() {
  toy::P net;
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Watcher{});
  trainer.fit(net, toy::batches(4));
}
