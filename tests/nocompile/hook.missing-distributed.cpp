// refused: [fulgurite.hook.missing] this strategy has no local_rank, which the trainer calls: add a public function, local_rank()
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

#ifdef LEGAL
using Many = toy::Several;
#else
struct Many : toy::Device {
  static constexpr bool is_distributed = true;
};
#endif

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, Many{}, Float32{}, Automatic{});
  trainer.fit(net, toy::OwnPart<double>{toy::batches(4)});
}
