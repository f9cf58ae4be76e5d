// refused: [fulgurite.policy.final] the hooks of a final class cannot be seen: remove `final` from the strategy
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

#ifdef LEGAL
struct Own : toy::Device {};
#else
struct Own final : toy::Device {};
#endif

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, Own{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
