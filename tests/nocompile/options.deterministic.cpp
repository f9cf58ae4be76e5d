// refused: [fulgurite.options.deterministic] deterministic: benchmark may choose other algorithms in each run: leave one of the two out
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
#ifdef LEGAL
  auto trainer = make_trainer<toy::P>(constant([] { return TrainerOptions{.max_epochs = 1, .deterministic = true}; }),
                                      toy::Device{}, Float32{}, Automatic{});
#else
  auto trainer = make_trainer<toy::P>(
      constant([] { return TrainerOptions{.max_epochs = 1, .deterministic = true, .benchmark = true}; }), toy::Device{},
      Float32{}, Automatic{});
#endif
  trainer.fit(net, toy::batches(4));
}
