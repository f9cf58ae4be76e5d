// refused: [fulgurite.hook.parameters] batch_is_ready cannot be called: make it a public function, batch_is_ready() const, which returns bool
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Numbers : toy::Unsized {
  using toy::Unsized::Unsized;
#ifdef LEGAL
  bool batch_is_ready() const { return true; }
#else
  void batch_is_ready() const {}
#endif
};

int main() {
  toy::P net;
  Numbers numbers{4};
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  trainer.open(net, numbers).close();
}
