// refused: [fulgurite.trainer.swapped] the model comes first, the data after it: write trainer.fit(model, data)
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
  auto data = toy::batches(4);
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
#ifdef LEGAL
  trainer.fit(net, data);
#else
  trainer.fit(data, net);
#endif
}
