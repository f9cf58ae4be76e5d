// refused: [fulgurite.callback.one_bar] two callbacks draw in the same place (two progress bars, or two summaries): keep one
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Bar {
  static constexpr Order order = Order::progress;
  void on_train_start() {}
};
struct Dots {
#ifndef LEGAL
  static constexpr Order order = Order::progress;
#endif
  void on_train_start() {}
};

int main() {
  toy::P net;
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Bar{}, Dots{});
  trainer.fit(net, toy::batches(4));
}
