// refused: [fulgurite.hook.near_miss] on_pre_backward is not a hook and would never be called: use pre_backward
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Own : toy::Device {
#ifdef LEGAL
  void pre_backward(auto&) {}
#else
  void on_pre_backward(auto&) {}
#endif
};

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, Own{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
