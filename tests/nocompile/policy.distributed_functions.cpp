// refused: [fulgurite.policy.distributed_functions] a strategy that is_distributed has world, local_rank, agree, reduce, reduce_in_place, reduce_gradients, broadcast, gather and barrier, and this one lacks some: add them, or derive it from DistributedDataParallel
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

#ifdef LEGAL
using Many = toy::Several;
#else
struct Many : toy::Device {
  static constexpr bool is_distributed = true;
};
#endif

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, Many{}, Float32{}, Automatic{});
  trainer.fit(net, toy::OwnPart<double>{toy::batches(4)});
}
