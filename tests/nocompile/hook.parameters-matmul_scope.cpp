// refused: [fulgurite.hook.parameters] matmul_scope of this strategy cannot be called: make it a public function, matmul_scope()
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Own : toy::Device {
#ifdef LEGAL
  int matmul_scope() { return 0; }
#else
 private:
  int matmul_scope() { return 0; }
#endif
};

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, Own{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
