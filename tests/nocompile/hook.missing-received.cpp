// refused: [fulgurite.hook.missing] this optimizer has no set_received, which the trainer calls: add a public function, set_received(auto const& received)
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Own : toy::Sgd {
  std::vector<bool> received() const { return {}; }
#ifdef LEGAL
  void set_received(std::vector<bool> const&) {}
#endif
};
struct Net : toy::P {
  Own configure_optimizers() { return {{{p}}}; }
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
