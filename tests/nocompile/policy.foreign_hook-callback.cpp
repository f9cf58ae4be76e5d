// refused: [fulgurite.policy.foreign_hook] before_save is never asked of a strategy: move it to a callback
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Own : toy::Device {
#ifndef LEGAL
  void before_save(auto&) {}
#endif
};

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, Own{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
