// refused: [fulgurite.hook.parameters] reduce_gradients of this strategy cannot be called: make it a public function, reduce_gradients(std::span<double> riders, auto& optimizers)
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Own : toy::Several {
#ifdef LEGAL
  void reduce_gradients(std::span<double>, auto& /*optimizers*/) {}
#else
  void reduce_gradients(auto& /*optimizers*/) {}
#endif
};

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, Own{}, Float32{}, Automatic{});
  trainer.fit(net, toy::OwnPart<double>{toy::batches(4)});
}
