// refused: [fulgurite.policy.sharded_average] a callback averages the weights, and with this strategy no process has all of them: leave the callback out, or use another strategy
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Shards : toy::Device {
#ifndef LEGAL
  static constexpr bool shards_parameters = true;
#endif
};
struct Average {
  static constexpr bool replaces_weights = true;
  void on_train_end() {}
};

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, Shards{}, Float32{}, Automatic{}, Average{});
  trainer.fit(net, toy::batches(4));
}
