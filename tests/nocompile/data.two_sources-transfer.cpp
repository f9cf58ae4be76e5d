// refused: [fulgurite.data.two_sources] on_after_batch_transfer is in the data module and in the model, and one of them would be ignored: remove one, or say `using OverridesModel = void` in the data module
#include <vector>

#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Module {
#ifdef LEGAL
  using OverridesModel = void;
#endif
  std::vector<double> train_dataloader() { return toy::batches(4); }
  double on_after_batch_transfer(double batch) { return batch + 1; }
};
struct Net : toy::P {
  double on_after_batch_transfer(double batch) { return batch + 1; }
};

int main() {
  Net net;
  Module data;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, data);
}
