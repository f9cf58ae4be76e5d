// refused: [fulgurite.hook.near_miss] on_load_checkpoint is not a hook and would never be called: use state(archive), which saves and loads
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
#ifdef LEGAL
  void state(auto&) {}
#else
  void on_load_checkpoint(auto&) {}
#endif
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
