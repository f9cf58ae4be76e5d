// refused: [fulgurite.trainer.twice] make_trainer is given a callback, and the tag, such as NoLogger{}, that leaves it out: keep one of them
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Bar {
  using Stateless = ByChoice;
  static constexpr Order order = Order::progress;
  void on_train_batch_end() {}
};

int main() {
  toy::P net;
#ifdef LEGAL
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Bar{});
#else
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Bar{},
                                      NoProgressBar{});
#endif
  trainer.fit(net, toy::batches(4));
}
