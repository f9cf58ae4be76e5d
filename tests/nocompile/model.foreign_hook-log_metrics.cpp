// refused: [fulgurite.model.foreign_hook] log_metrics is never asked of a model: move it to a logger
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
#ifdef LEGAL
  void log_metrics(double, double) {}  // what its own step calls
#else
  void log_metrics(std::span<Scalar const>, long) {}
#endif
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
