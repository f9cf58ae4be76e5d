// refused: [fulgurite.data.foreign_hook] log_metrics is never asked of a data module: move it to a logger
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Data {
  std::vector<double> train_dataloader() { return toy::batches(4); }
#ifndef LEGAL
  void log_metrics(std::span<Scalar const>, long) {}
#endif
};

int main() {
  toy::P net;
  Data data;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, data);
}
