// refused: [fulgurite.policy.optimization] make_trainer's fourth argument is no optimization: pass Automatic{} or Manual{}
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

#ifdef LEGAL
using Plain = Automatic;
#else
struct Plain {
  static constexpr bool automatic = true;
};
#endif

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Plain{});
  trainer.fit(net, toy::batches(4));
}
