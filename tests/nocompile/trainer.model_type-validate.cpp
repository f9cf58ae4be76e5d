// refused: [fulgurite.trainer.model_type] this trainer was made for another model type, whose hooks it knows: use make_trainer<ThisModel>(...)
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
  void validation_step(double) {}
};
struct Derived : Net {
  void on_train_start() {}
};

int main() {
#ifdef LEGAL
  Net net;
#else
  Derived net;
#endif
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.validate(net, toy::batches(4));
}
