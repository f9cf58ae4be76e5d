// refused: [fulgurite.model.configure_model] this strategy splits the model where it is made: add `void configure_model(auto& ctx)`
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Split : toy::Device {
  static constexpr bool needs_configure_model = true;
};
struct Net : toy::P {
#ifdef LEGAL
  void configure_model() {}
#endif
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, Split{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
