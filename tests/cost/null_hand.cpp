// The loop by hand, with what a trainer keeps track of: windows, limits, time, stops, logging at a cadence, validation
// inside an epoch.

#include <algorithm>
#include <chrono>
#include <optional>

#include "null.hpp"
#include "program.hpp"

namespace {

struct Options {
  int max_epochs = 1;
  int min_epochs = 0;
  std::optional<long> max_steps = std::nullopt;
  std::optional<long> min_steps = std::nullopt;
  std::optional<double> max_seconds = std::nullopt;
  std::optional<long> val_check_interval = std::nullopt;
  int check_val_every_n_epoch = 1;
  int log_every_n_steps = 50;
  int accumulate_grad_batches = 1;
  double clip_norm = 0;
};

/// Everything that the program below knows while it runs; a user's hook could set `stop`.
struct Counters {
  int epoch = 0;
  long batch = 0, batches_seen = 0, global_step = 0, logged = 0, window_start = 0;
  bool accumulating = false, stop = false;
};

void validate(null::Count const& loader) {
  for (long const batch : loader) null::work(batch);
}
void write_row(null::Value const& loss) { asm volatile("" : : "m"(loss)); }

/// `options`, `counters` and the loaders come from elsewhere: nothing of them is known here.
[[gnu::noinline]] void train(Options const& options, Counters& at, null::Count const& loader,
                             null::Count const* validation) {
  using Clock = std::chrono::steady_clock;
  null::Optimizer optimizer;
  auto const began = Clock::now();
  auto const minima_met = [&] {
    return at.epoch >= options.min_epochs && at.global_step >= options.min_steps.value_or(0);
  };
  auto const exhausted = [&] { return options.max_steps && at.global_step >= *options.max_steps; };
  auto const stops = [&] { return at.stop && minima_met(); };
  auto const update = [&] {
    if (options.clip_norm > 0) null::Backend::clip_norm(optimizer.parameters(), options.clip_norm);
    optimizer.step();
    ++at.global_step;
  };
  for (; at.epoch < options.max_epochs && !exhausted() && !stops(); ++at.epoch) {
    long const batches = static_cast<long>(loader.size());
    long const interval = options.val_check_interval.value_or(batches);
    at.window_start = 0;
    at.batch = 0;
    for (long const batch : loader) {
      long const b = at.batch;
      bool const last = b + 1 == batches;
      long const divisor = std::min<long>(options.accumulate_grad_batches, batches - at.window_start);
      bool const closes = b - at.window_start + 1 == options.accumulate_grad_batches || last;
      at.accumulating = !closes;
      null::Value loss = null::work(batch);
      if (b == at.window_start) optimizer.zero_grad();
      null::Device{}.backward(loss, 1.0 / static_cast<double>(divisor));
      if (closes) update();
      at.batch = b + 1;
      ++at.batches_seen;
      if (options.max_seconds && std::chrono::duration<double>(Clock::now() - began).count() >= *options.max_seconds)
        at.stop = true;
      bool const leaves = last || exhausted() || stops();
      if (leaves && at.accumulating) {
        null::Backend::scale_gradients(optimizer.parameters(),
                                       static_cast<double>(divisor) / static_cast<double>(b - at.window_start + 1));
        update();
        at.accumulating = false;
      }
      if (!at.accumulating) {
        at.window_start = b + 1;
        ++at.logged;
        if (options.log_every_n_steps != 0 && (at.logged % options.log_every_n_steps == 0 || at.stop)) write_row(loss);
      }
      if (validation && (at.epoch + 1) % options.check_val_every_n_epoch == 0 && (stops() || (b + 1) % interval == 0))
        validate(*validation);
      if (leaves || stops()) break;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  long const steps = steps_of(argc, argv);
  Options options;
  Counters counters;
  null::Count const batches(steps), validation(1);
  asm volatile("" : : "r"(&options), "r"(&counters) : "memory");
#ifdef VALIDATED
  train(options, counters, batches, &validation);
#else
  train(options, counters, batches, nullptr);
#endif
  return report(steps, counters.global_step);
}
