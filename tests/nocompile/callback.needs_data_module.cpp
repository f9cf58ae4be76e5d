// refused: [fulgurite.callback.needs_data_module] this callback makes loaders again, so it needs a data module, or a model with train_dataloader(): pass that instead of loaders
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Search {
  static constexpr bool needs_data_module = true;
  void on_fit_start() {}
};
struct Data {
  std::vector<double> train_dataloader() { return toy::batches(4); }
};

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Search{});
#ifdef LEGAL
  Data data;
#else
  auto data = toy::batches(4);
#endif
  trainer.fit(net, data);
}
