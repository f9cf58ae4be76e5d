// refused: [fulgurite.options.length] a run's length is .max_epochs, .max_steps or .max_time, Lightning's names
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
#ifdef LEGAL
  TrainerOptions const options{.max_epochs = 3};
#else
  TrainerOptions const options{.epochs = 3};
#endif
  auto trainer = make_trainer<toy::P>(options, toy::Device{}, Float32{}, Automatic{});
}
