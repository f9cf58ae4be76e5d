// refused: [fulgurite.hook.parameters] hyperparameters cannot be called: make it a public function, hyperparameters(auto& list) const
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Settings {
  double rate = 0.5;
#ifdef LEGAL
  void hyperparameters(auto& list) const { list("rate", rate); }
#else
  void hyperparameters(auto& list) { list("rate", rate); }
#endif
};
struct Net : toy::P {
  Settings hparams{};
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
