// refused: [fulgurite.trainer.no_model] make_trainer is told the model's type in angle brackets, and fit is given the model: make_trainer<Net>(TrainerOptions{...}, ...), then trainer.fit(net, loader)
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
#ifdef LEGAL
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
#else
  auto trainer = make_trainer(net, TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
#endif
  trainer.fit(net, toy::batches(4));
}
