// refused: [fulgurite.data.loader] there is no loader for test_step: pass one, or a data module that has one
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
  void test_step(double) {}
};
/// A data module.
struct Data {
  auto train_dataloader() { return toy::batches(4); }
#ifdef LEGAL
  auto test_dataloader() { return toy::batches(2); }
#endif
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.test(net, Data{});
}
