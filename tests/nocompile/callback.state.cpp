// refused: [fulgurite.callback.state] this callback has members that a checkpoint would forget: add `void state(auto& archive)`, or `using Stateless = fulgurite::ByChoice`
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Watcher {
  int batches = 0;
  void on_train_batch_end() { ++batches; }
#ifdef LEGAL
  void state(auto& archive) { archive("batches", batches); }
#endif
};

int main() {
  toy::P net;
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Watcher{});
  trainer.fit(net, toy::batches(4));
}
