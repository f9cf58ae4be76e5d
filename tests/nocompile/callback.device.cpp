// refused: [fulgurite.callback.device] a device is an argument of a strategy: write SingleDevice{cpu}, SingleDevice{cuda(1)}, or SingleDevice{NamedDevice{"cuda:1"}} for one that is named at run time
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

/// As torch::Device, which is final.
struct Place final {
  bool is_cpu() const { return true; }
  bool has_index() const { return false; }
};

int main() {
  toy::P net;
#ifdef LEGAL
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
#else
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Place{});
#endif
  trainer.fit(net, toy::batches(4));
}
