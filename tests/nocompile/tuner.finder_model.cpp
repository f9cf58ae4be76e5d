// refused: [fulgurite.tuner.finder_model] LearningRateFinder needs the type of the model: write LearningRateFinder<Net>{}
// g++: [with fulgurite_tuner_finder_model_is_missing = void]
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>
#include <fulgurite/tuner/learning_rate_finder.hpp>

using namespace fulgurite;

struct Net : toy::P {
  double lr = 0.1;
};

int main() {
  Net net;
#ifdef LEGAL
  LearningRateFinder<Net> callback{};
#else
  LearningRateFinder callback{};
#endif
  auto trainer =
      make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, std::move(callback));
  trainer.fit(net, toy::batches(4));
}
