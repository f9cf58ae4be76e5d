// refused: [fulgurite.hook.parameters] share_statistics of this strategy cannot be called: make it a public function, share_statistics(auto& model)
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Own : toy::Device {
#ifdef LEGAL
  void share_statistics(auto&) {}
#else
  void share_statistics(auto&, auto&) {}
#endif
};

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, Own{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
