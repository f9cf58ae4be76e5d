// refused: [fulgurite.hook.near_miss] matmulscope is not a hook and would never be called: use matmul_scope
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Own : toy::Device {
#ifdef LEGAL
  int local_rank() const { return 0; }
#else
  int matmulscope() const { return 0; }
#endif
};

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, Own{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
