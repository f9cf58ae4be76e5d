// refused: [fulgurite.hook.parameters] broadcast of this strategy cannot be called: make it a public function, broadcast(std::string bytes)
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Own : toy::Several {
#ifdef LEGAL
  std::string broadcast(std::string&& bytes) const { return std::move(bytes); }
#else
  std::string broadcast(std::string bytes, int) const { return bytes; }
#endif
};

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, Own{}, Float32{}, Automatic{});
  trainer.fit(net, toy::OwnPart<double>{toy::batches(4)});
}
