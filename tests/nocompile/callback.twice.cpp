// refused: [fulgurite.callback.twice] two callbacks have the same type: leave one out, or derive a type for the second
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Watcher {
  using Stateless = ByChoice;
  int batches = 0;
  void on_train_batch_end() { ++batches; }
};
#ifdef LEGAL
struct Second : Watcher {};
#endif

int main() {
  toy::P net;
#ifdef LEGAL
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Watcher{}, Second{});
#else
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Watcher{},
                                      Watcher{});
#endif
  trainer.fit(net, toy::batches(4));
}
