// refused: [fulgurite.hook.parameters] account cannot be called: make it a public function, account() const
#include <string>
#include <vector>

#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Own : toy::Device {
#ifdef LEGAL
  std::vector<std::string> account() const { return {}; }
#else
  std::vector<std::string> account() { return {}; }
#endif
};

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, Own{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
