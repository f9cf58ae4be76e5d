// refused: [fulgurite.hook.parameters] barrier of this strategy cannot be called: make it a public function, barrier(std::string_view what)
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Own : toy::Several {
#ifdef LEGAL
  void barrier(std::string_view) const {}
#else
  void barrier() const {}
#endif
};

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, Own{}, Float32{}, Automatic{});
  trainer.fit(net, toy::OwnPart<double>{toy::batches(4)});
}
