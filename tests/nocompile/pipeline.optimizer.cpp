// refused: [fulgurite.pipeline.optimizer] each process has its part of what the optimizer keeps, and of this one the parts cannot be brought together: use one of fulgurite::optim, such as optim::AdamW
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Split : toy::Several {
  template <class Optimizer>
#ifdef LEGAL
  static constexpr bool gathers = true;
#else
  static constexpr bool gathers = requires(Optimizer& optimizer) { optimizer.parameters().arena(); };
  static constexpr bool splits_model = true;
#endif
};

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, Split{}, Float32{}, Automatic{});
  trainer.fit(net, toy::OwnPart<double>{toy::batches(4)});
}
