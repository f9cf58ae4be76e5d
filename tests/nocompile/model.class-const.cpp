// refused: [fulgurite.model.class] make_trainer<Model> needs a class that is defined before this call: no pointer, reference or const
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
#ifdef LEGAL
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
#else
  auto trainer = make_trainer<toy::P const>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
#endif
  trainer.fit(net, toy::batches(4));
}
