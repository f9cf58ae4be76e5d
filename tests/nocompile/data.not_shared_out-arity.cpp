// refused: [fulgurite.data.not_shared_out] every process would read all of this loader: give it `void shard(int rank, int world, bool training)`, or pass data::of_this_rank(loader), each process its own part
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Numbers : std::vector<double> {
#ifdef LEGAL
  void shard(int, int, bool) {}
#else
  void shard(int, int) {}
#endif
};

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Several{}, Float32{}, Automatic{});
  trainer.fit(net, Numbers{{1, 2}});
}
