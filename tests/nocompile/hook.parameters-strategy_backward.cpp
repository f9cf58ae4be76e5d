// refused: [fulgurite.hook.parameters] backward of this strategy cannot be called: make it a public function, backward(auto& loss, auto const& seed)
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Own : toy::Device {
#ifdef LEGAL
  void backward(toy::Tensor& loss, double seed) { loss.backward(seed); }
#else
  void backward(toy::Tensor& loss) { loss.backward(1.0); }
#endif
};

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, Own{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
