// refused: [fulgurite.hook.parameters] setup of this strategy cannot be called: make it a public function, setup(auto& model, auto const& precision)
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Own : toy::Device {
#ifdef LEGAL
  void setup(auto&, auto const&) {}
#else
  void setup(auto&) {}
#endif
};

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, Own{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
