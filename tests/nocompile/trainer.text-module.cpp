// refused: [fulgurite.trainer.text] a file to resume from is CkptPath{"last"}, the last argument: a text is no data, and a loader is a range of batches
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Data {
  auto train_dataloader() { return toy::batches(4); }
};

int main() {
  toy::P net;
  Data data;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
#ifdef LEGAL
  trainer.fit(net, data);
#else
  trainer.fit(net, data, "last");
#endif
}
