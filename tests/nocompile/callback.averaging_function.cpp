// refused: [fulgurite.callback.averaging_function] an averaging function takes (long averaged) and returns the share of the new weights, or (average, weight, long averaged) and returns the new average
#include <toy.hpp>

#include <fulgurite/callback/weight_averaging.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
#ifdef LEGAL
  WeightAveraging average([](auto const& before, auto const& weight, long) { return before + weight; });
#else
  WeightAveraging average([](auto const& before, auto const& weight) { return before + weight; });
#endif
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, average);
  trainer.fit(net, toy::batches(4));
}
