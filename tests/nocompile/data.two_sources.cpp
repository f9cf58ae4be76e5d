// refused: [fulgurite.data.two_sources] train_dataloader is in the data module and in the model, and one of them would be ignored: remove one, or say `using OverridesModel = void` in the data module
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
  std::vector<double> train_dataloader() { return toy::batches(2); }
};
struct Data {
#ifdef LEGAL
  using OverridesModel = void;
#endif
  std::vector<double> train_dataloader() { return toy::batches(4); }
};

int main() {
  Net net;
  Data data;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, data);
}
