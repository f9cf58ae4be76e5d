// refused: [fulgurite.trainer.no_model] make_trainer takes the model's type, or the model: make_trainer<Net>(TrainerOptions{...}) or make_trainer(net, TrainerOptions{...}), then trainer.fit(net, loader)
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
  TrainerOptions const options{.max_epochs = 1};
#ifdef LEGAL
  auto trainer = make_trainer<toy::P>(options, toy::Device{}, Float32{}, Automatic{});
#else
  Trainer trainer{options};
#endif
  trainer.fit(net, toy::batches(4));
}
