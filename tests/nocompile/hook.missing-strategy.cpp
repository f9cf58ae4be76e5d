// refused: [fulgurite.hook.missing] this strategy has no setup, which the trainer calls: add a public function, setup(auto& model, auto const& precision)
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

#ifdef LEGAL
struct Bare : toy::Device {};
#else
struct Bare {
  using Backend = toy::Backend;
  static constexpr Known on_gpu = Known::no;
  static constexpr bool is_distributed = false, captures = false;
};
#endif

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, Bare{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
