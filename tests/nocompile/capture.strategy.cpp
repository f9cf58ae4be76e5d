// refused: [fulgurite.capture.strategy] Captured cannot replay the steps of this strategy: use SingleDevice, or the strategy without Captured
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>
#include <fulgurite/policy/policies.hpp>

using namespace fulgurite;

/// Steps of several processes, which also exchange gradients.
using Many = toy::Several;

int main() {
  toy::P net;
#ifdef LEGAL
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, Many{}, Float32{}, Automatic{});
#else
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, Captured{Many{}}, Float32{}, Automatic{});
#endif
  trainer.fit(net, toy::OwnPart<double>{toy::batches(4)});
}
