// refused: [fulgurite.data.prepare_data] prepare_data runs in one process only, so what it stores the others lack: make it `void prepare_data() const`, and read in setup()
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Data {
  std::vector<double> all = {};
#ifdef LEGAL
  void prepare_data() const {}
  void setup() { all = toy::batches(4); }
#else
  void prepare_data() { all = toy::batches(4); }
#endif
  std::vector<double>& train_dataloader() { return all; }
};

int main() {
  toy::P net;
  Data data;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, data);
}
