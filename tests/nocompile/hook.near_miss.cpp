// refused: [fulgurite.hook.near_miss] training_epoch_end is not a hook and would never be called: use on_train_epoch_end
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
#ifdef LEGAL
  void on_train_epoch_end(auto&) {}
#else
  void training_epoch_end(auto&) {}
#endif
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
