// refused: [fulgurite.data.not_shared_out] every process would read all of this loader: give it `void shard(int rank, int world, bool training)`, or pass data::of_this_rank(loader), each process its own part
#include <toy.hpp>

#include <fulgurite/data/combined.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Several{}, Float32{}, Automatic{});
#ifdef LEGAL
  trainer.fit(net, data::of_this_rank(toy::batches(4)));
#else
  trainer.fit(net, toy::batches(4));
#endif
}
