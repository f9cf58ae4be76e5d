// refused: [fulgurite.hook.no_effect] on_test_batch_end returns Stop, but nothing can be stopped there: return void
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
  void test_step(double) {}
};
struct Watcher {
#ifdef LEGAL
  void on_test_batch_end(auto&) {}
#else
  Stop on_test_batch_end(auto&) { return Stop{}; }
#endif
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Watcher{});
  trainer.test(net, toy::batches(4));
}
