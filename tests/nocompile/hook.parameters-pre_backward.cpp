// refused: [fulgurite.hook.parameters] pre_backward cannot be called: make it a public function, pre_backward(auto& loss)
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Own : toy::Device {
#ifdef LEGAL
  void pre_backward(toy::Tensor&) {}
#else
  void pre_backward() {}
#endif
};

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, Own{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
