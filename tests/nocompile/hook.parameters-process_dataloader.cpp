// refused: [fulgurite.hook.parameters] process_dataloader cannot be called: make it a public function, process_dataloader(auto& loader)
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Own : toy::Device {
#ifdef LEGAL
  void process_dataloader(auto&) {}
#else
  void process_dataloader() {}
#endif
};

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, Own{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
