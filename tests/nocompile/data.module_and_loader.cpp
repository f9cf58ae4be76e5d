// refused: [fulgurite.data.module_and_loader] a data module brings its own loaders: pass it alone, or pass loaders only
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

/// A data module.
struct Data {
  auto train_dataloader() { return toy::batches(4); }
};
struct Net : toy::P {
  void validation_step(double) {}
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
#ifdef LEGAL
  trainer.fit(net, Data{}.train_dataloader(), toy::batches(2));
#else
  trainer.fit(net, Data{}, toy::batches(2));
#endif
}
