// refused: [fulgurite.hook.parameters] reduce_in_place of this strategy cannot be called: make it a public function, reduce_in_place(std::span<double> values, std::span<Reduce const> how)
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Own : toy::Several {
#ifdef LEGAL
  void reduce_in_place(std::span<double>, std::span<Reduce const>) const {}
#else
  void reduce_in_place(std::span<double>) const {}
#endif
};

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, Own{}, Float32{}, Automatic{});
  trainer.fit(net, toy::OwnPart<double>{toy::batches(4)});
}
