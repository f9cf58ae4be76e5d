// refused: [fulgurite.trainer.defaults] make_trainer adds a bar, a summary, a log, a checkpoint and a table, and a strategy where none is named: #include <fulgurite/defaults.hpp>, or name a strategy and NoDefaults{}
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

// Everything is named, and a bar, a summary, a log, a checkpoint and a table would be added.
struct Host : toy::Device {
  struct Backend : toy::Backend {
    static constexpr bool adds_defaults = true;
  };
};

int main() {
  toy::P net;
#ifdef LEGAL
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, Host{}, Float32{}, Automatic{}, NoDefaults{});
#else
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, Host{}, Float32{}, Automatic{});
#endif
  trainer.fit(net, toy::batches(4));
}
