// fit of the null model with IDLE callbacks without a hook of a step, and LISTENING ones with two such hooks.

#include <cstddef>
#include <cstdio>
#include <string_view>
#include <utility>

#include <fulgurite/loop/trainer.hpp>

#include "null.hpp"
#include "program.hpp"

// Named, as a program's classes are: internal linkage lets compilers inline what they would not otherwise.
namespace null {

struct Net {
  Value training_step(long batch, auto&) { return work(batch); }
  Optimizer configure_optimizers() { return {}; }
};

struct Validated : Net {
  void validation_step(long batch, auto&) { work(batch); }
};

/// Each a class of its own, as in a program.
template <int>
struct Idle {
  void on_fit_start() {}
};
template <int>
struct Listening {
  using Stateless = fulgurite::ByChoice;
  long starts = 0, ends = 0;
  void on_train_batch_start() { ++starts; }
  void on_train_batch_end() { ++ends; }
};

template <class Model, class... Loaders>
int train(long steps, Loaders... loaders) {
  return [&]<int... I, int... H>(std::integer_sequence<int, I...>, std::integer_sequence<int, H...>) {
    Model model;
    auto trainer =
        fulgurite::make_trainer<Model>(fulgurite::TrainerOptions{.max_epochs = 1, .num_sanity_val_steps = 0}, Device{},
                                       fulgurite::Float32{}, fulgurite::Automatic{}, Idle<I>{}..., Listening<H>{}...);
    Count batches(steps);
    trainer.fit(model, batches, loaders...);
    bool const called = ((trainer.template callback<Listening<H>>().ends == steps) && ...);
    return report(steps, called ? trainer.progress().global_step : -1);
  }(std::make_integer_sequence<int, IDLE>{}, std::make_integer_sequence<int, LISTENING>{});
}

}  // namespace null

/// `null_fit clock` prints where a run keeps the user's clock, the one function that its loop may call through a
/// pointer.
int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "clock")
    return std::printf("%zu\n", offsetof(fulgurite::TrainerOptions, now)) < 0;
  long const steps = steps_of(argc, argv);
#ifdef VALIDATED
  return null::train<null::Validated>(steps, null::Count(1));
#else
  return null::train<null::Net>(steps);
#endif
}
