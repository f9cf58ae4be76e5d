// refused: [fulgurite.hook.parameters] transfer_batch_to_device cannot be called: make it a public function, transfer_batch_to_device(auto& batch, auto& ctx)
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
#ifdef LEGAL
  double transfer_batch_to_device(double batch) { return batch; }
#else
  int* transfer_batch_to_device(int* batch) { return batch; }
#endif
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
