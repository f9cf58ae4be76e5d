// refused: [fulgurite.data.no_loader] a loader is a range of batches, and one argument is none: pass a loader, or a std::tuple of them
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
  void validation_step(double) {}
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
#ifdef LEGAL
  trainer.fit(net, toy::batches(4), toy::batches(2));
#else
  trainer.fit(net, toy::batches(4), 2);
#endif
}
