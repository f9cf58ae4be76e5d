// refused: [fulgurite.data.const] a loader or data module is changed by a run: pass a variable that is not const
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

/// A data module.
struct Data {
  auto train_dataloader() { return toy::batches(4); }
};

int main() {
  toy::P net;
#ifdef LEGAL
  Data data;
#else
  Data const data;
#endif
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, data);
}
