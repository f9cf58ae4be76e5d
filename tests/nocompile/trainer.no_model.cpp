// refused: [fulgurite.trainer.no_model] make_trainer takes the model's type, or the model: make_trainer<Net>(TrainerOptions{...}) or make_trainer(net, TrainerOptions{...}), then trainer.fit(net, loader)
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
#ifdef LEGAL
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
#else
  auto trainer = make_trainer(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
#endif
  trainer.fit(net, toy::batches(4));
}
