// refused: [fulgurite.hook.parameters] gather of this strategy cannot be called: make it a public function, gather(std::string bytes)
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Own : toy::Several {
#ifdef LEGAL
  std::vector<std::string> gather(std::string bytes) const { return {bytes}; }
#else
  std::vector<std::string> gather() const { return {}; }
#endif
};

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, Own{}, Float32{}, Automatic{});
  trainer.fit(net, toy::OwnPart<double>{toy::batches(4)});
}
