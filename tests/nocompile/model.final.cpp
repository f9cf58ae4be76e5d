// refused: [fulgurite.model.final] the hooks of a final class cannot be seen: remove `final` from the model
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

#ifdef LEGAL
struct Net : toy::P {};
#else
struct Net final : toy::P {};
#endif

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
