// refused: [fulgurite.trainer.trait] a trait, such as needs_logger or acts_on_tensors, is asked for while compiling, and here it is a variable: write `static constexpr bool`
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Sums {
  using Stateless = ByChoice;
#ifdef LEGAL
  std::vector<long> order;  // no Order: what it saw
#else
  Order order = Order::monitor;
#endif
  void on_train_epoch_end() {}
};

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Sums{});
  trainer.fit(net, toy::batches(4));
}
