// refused: [fulgurite.data.final] the hooks of a final class cannot be seen: remove `final` from the data module
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

#ifdef LEGAL
struct Data {
#else
struct Data final {
#endif
  auto train_dataloader() { return toy::batches(4); }
};

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, Data{});
}
