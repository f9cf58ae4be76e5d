// refused: [fulgurite.tuner.finder_options] the rates of a LearningRateFinder are options of its search: write LearningRateFinder<Net>{{.search = {.max_lr = 0.1}, .milestones = {5}}}
// g++: [with fulgurite_tuner_finder_options_are = fulgurite::LearningRateFinderOptions<Net>
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
  LearningRateFinder<Net> callback{{.search = {.max_lr = 1}}};
#else
  LearningRateFinder<Net> callback{{.max_lr = 1}};
#endif
  auto trainer =
      make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, std::move(callback));
  trainer.fit(net, toy::batches(4));
}
