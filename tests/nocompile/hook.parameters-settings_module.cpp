// refused: [fulgurite.hook.parameters] hyperparameters cannot be called: make it a public function, hyperparameters(auto& list) const
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Data {
  double rate = 0.5;
  std::vector<double> train_dataloader() { return toy::batches(4); }
#ifdef LEGAL
  void hyperparameters(auto& list) const { list("rate", rate); }
#else
  void hyperparameters(auto& list) { list("rate", rate); }
#endif
};

int main() {
  toy::P net;
  Data data;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, data);
}
