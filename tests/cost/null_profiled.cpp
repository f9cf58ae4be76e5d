// fit of the null model with a SimpleProfiler: what an action costs that is measured.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string_view>

#include <fulgurite/callback/simple_profiler.hpp>
#include <fulgurite/loop/trainer.hpp>

#include "null.hpp"
#include "program.hpp"

namespace null {

struct Net {
  Value training_step(long batch, auto&) { return work(batch); }
  Optimizer configure_optimizers() { return {}; }
};

/// What one fit told its profiler, in actions a step.
struct Told {
  int status = 0;
  double actions = 0;
};

template <class... Cs>
Told train(long steps, Cs... callbacks) {
  Net model;
  auto trainer = fulgurite::make_trainer<Net>(fulgurite::TrainerOptions{.max_epochs = 1}, Device{},
                                              fulgurite::Float32{}, fulgurite::Automatic{}, callbacks...);
  Count batches(steps);
  trainer.fit(model, batches);
  Told told{report(steps, trainer.progress().global_step)};
  if constexpr (sizeof...(Cs) != 0) {
    for (auto const& one : trainer.template callback<fulgurite::SimpleProfiler>().result().spent)
      told.actions += static_cast<double>(one.calls / steps);
  }
  return told;
}

inline fulgurite::SimpleProfiler quiet() { return fulgurite::SimpleProfiler{{.stream = nullptr}}; }

template <class... Cs>
double nanoseconds(long steps, Cs... callbacks) {
  auto const began = std::chrono::steady_clock::now();
  train(steps, callbacks...);
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - began).count() /
         static_cast<double>(steps);
}

/// The two alternate, since a machine's clock rate wanders; the least of each is what it can do. Beside the
/// actions that are counted, a step adds to one of them four times: the loader's move, and three stages of a transfer.
int time_both() {
  double alone = nanoseconds(100'000), profiled = nanoseconds(100'000, quiet());
  for (int round = 0; round != 30; ++round) {
    alone = std::min(alone, nanoseconds(100'000));
    profiled = std::min(profiled, nanoseconds(100'000, quiet()));
  }
  double const actions = train(1000, quiet()).actions + 4;
  return std::printf("a step %.1f ns, with %.0f measured actions %.1f ns: %.1f ns an action\n", alone, actions,
                     profiled, (profiled - alone) / actions) < 0;
}

}  // namespace null

/// `null_profiled time` prints nanoseconds, `null_profiled actions` how many a step has; else it takes its steps.
int main(int argc, char** argv) {
  std::string_view const what = argc > 1 ? argv[1] : "";
  if (what == "time") return null::time_both();
  if (what == "actions") return std::printf("%.0f\n", null::train(1000, null::quiet()).actions + 4) < 0;
  return null::train(steps_of(argc, argv), null::quiet()).status;
}
