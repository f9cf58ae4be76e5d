// refused: [fulgurite.hook.parameters] on_validation_batch_end cannot be called: make it a public function, on_validation_batch_end(auto& outputs, auto& batch, auto& ctx)
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
  void validation_step(double) {}
};
struct Watcher {
#ifdef LEGAL
  void on_validation_batch_end(auto&, double, auto&) {}
#else
  void on_validation_batch_end(auto&, int*, auto&) {}
#endif
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Watcher{});
  trainer.fit(net, toy::batches(4), toy::batches(2));
}
