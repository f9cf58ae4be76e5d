// refused: [fulgurite.hook.parameters] profile_action cannot be called: make it a public function, profile_action(ProfiledAction const& action)
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Watcher {
#ifdef LEGAL
  int profile_action(ProfiledAction const& action) { return static_cast<int>(action.id); }
#else
  int profile_action(ProfiledAction& action) { return static_cast<int>(action.id); }
#endif
};

int main() {
  toy::P net;
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Watcher{});
  trainer.fit(net, toy::batches(4));
}
