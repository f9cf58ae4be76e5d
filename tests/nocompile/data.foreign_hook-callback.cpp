// refused: [fulgurite.data.foreign_hook] before_save is never asked of a data module: move it to a callback
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Data {
  std::vector<double> train_dataloader() { return toy::batches(4); }
#ifndef LEGAL
  void before_save(auto&) {}
#endif
};

int main() {
  toy::P net;
  Data data;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, data);
}
