// refused: [fulgurite.trainer.open_temporary] an open fit refers to its model and its data until it is closed: keep them in variables that outlive it, and pass these to open
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
#ifdef LEGAL
  auto data = toy::batches(4);
  auto fit = trainer.open(net, data);
#else
  auto fit = trainer.open(net, toy::batches(4));
#endif
  fit.close();
}
