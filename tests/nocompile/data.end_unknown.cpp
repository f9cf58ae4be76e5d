// refused: [fulgurite.data.end_unknown] several processes have to know the epoch's last batch before its step: give the loader size(), or `static constexpr bool batches_stay_valid = true` if it may be read one batch ahead
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

/// Numbers, one after the other.
struct Numbers {
  static constexpr bool shards_itself = true;
#ifdef LEGAL
  static constexpr bool batches_stay_valid = true;
#endif
  toy::Unsized inner{4};
  auto begin() { return inner.begin(); }
  auto end() { return inner.end(); }
};

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Several{}, Float32{}, Automatic{});
  trainer.fit(net, Numbers{});
}
