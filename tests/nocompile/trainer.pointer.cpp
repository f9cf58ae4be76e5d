// refused: [fulgurite.trainer.pointer] the trainer takes the model itself, not a pointer or a holder: pass *model
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

#include <memory>

int main() {
  auto net = std::make_shared<toy::P>();
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
#ifdef LEGAL
  trainer.fit(*net, toy::batches(4));
#else
  trainer.fit(net, toy::batches(4));
#endif
}
