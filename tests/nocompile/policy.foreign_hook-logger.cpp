// refused: [fulgurite.policy.foreign_hook] log_metrics is never asked of a strategy: move it to a logger
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Own : toy::Device {
#ifndef LEGAL
  void log_metrics(std::span<Scalar const>, long) {}
#endif
};

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, Own{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
