#pragma once
// The search for a batch size: sizes are tried out until one is the largest that fits.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include <fulgurite/core/error.hpp>
#include <fulgurite/core/tell.hpp>
#include <fulgurite/loop/batch_sizes.hpp>
#include <fulgurite/loop/put_back.hpp>
#include <fulgurite/loop/searching.hpp>
#include <fulgurite/report/host_memory.hpp>
#include <fulgurite/report/numbers.hpp>
#include <fulgurite/tuner/batch_size_search.hpp>
#include <fulgurite/tuner/found_batch_size.hpp>
#include <fulgurite/tuner/out_of_memory.hpp>
#include <fulgurite/tuner/seen_trial.hpp>
#include <fulgurite/tuner/size_steps.hpp>
#include <fulgurite/tuner/size_target.hpp>

namespace fulgurite::tune {

/// Tries sizes out, one after the other, and notes what each of them took.
template <class R, class Model, class Data>
class SizeTrials {
  using Backend = typename R::Backend;

 public:
  SizeTrials(Rehearser<R>& rehearser, BatchSizeSearch<Model, Data> const& search)
      : rehearser_(rehearser),
        search_(search),
        target_(rehearser.batch_sizes(), rehearser.context().model(), search.field),
        steps_(search, target_.most()) {}

  /// As it is now.
  long size() const { return target_.read(); }

  void put(long size) const {
    target_.write(size);
    rehearser_.batch_sizes().changed();
  }

  /// Puts the found size where it belongs; however it fails, the size is what it was.
  FoundBatchSize run() {
    long const before = target_.read();
    try {
      while (auto const size = steps_.next()) {
        found_.trials.push_back(tried(*size));
        say(told(found_.trials.back()));
      }
      if (auto const size = steps_.found()) found_.size = *size;
      else
        throw Error("fulgurite.tuner.out_of_memory",
                    "no batch size fits into memory: the smallest that was tried is " +
                        std::to_string(found_.trials.back().size) +
                        (steps_.high() == 1 ? "; make the model smaller, or take a device with more memory"
                                            : "; begin lower, by .init_val, or allow more of .max_trials"));
    } catch (...) {
      target_.write(before);
      throw;
    }
    put(found_.size);
    std::string line = "batch size: " + std::to_string(found_.size);
    if (auto const fastest = found_.fastest()) line += ", the fastest: " + std::to_string(*fastest);
    say(line);
    return std::move(found_);
  }

 private:
  BatchSizeTrial tried(long size) {
    target_.write(size);
    auto const device = rehearser_.context().device();
    Backend::restart_peak_memory(device);
    report::restart_host_peak();
    auto const begin = now();
    SeenTrial seen;
    auto const fits = steps_made(size, seen);
    auto peak = Backend::peak_memory(device);
    if (!peak) peak = report::host_peak();
    Backend::free_caches(device);
    if (!fits) {
      long const failed = steps_.size();
      steps_.fails();
      return {.size = failed, .fits = false, .peak_bytes = peak};
    }
    BatchSizeTrial trial{.size = steps_.size(), .peak_bytes = peak};
    seen.rate(trial, begin);
    steps_.fits();
    return trial;
  }

  bool steps_made(long size, SeenTrial& seen) {
    // A loader that does not say how many batches it has is asked for a second one.
    long const steps = std::max(2L, search_.steps_per_trial);
    RehearsalPlan plan{.steps = steps, .fresh_loader = true, .non_finite = NonFinite::ignore};
    plan.options = [&](TrainerOptions& options) {
      // Each epoch has a step at least, unless hooks leave it.
      long const last = rehearser_.context().current_epoch() + steps;
      options.max_epochs = static_cast<int>(std::min<long>(last, std::numeric_limits<int>::max()));
      options.limit_train_batches = options.limit_val_batches = options.limit_test_batches =
          options.limit_predict_batches = {};
    };
    plan.on_loader = [&](LoaderFacts const& facts) {
      seen.batches = facts.batches;
      if (facts.samples) steps_.bound(*facts.samples);
    };
    plan.before_step = [&](RehearsedStep& step) { seen.opens(step); };
    plan.after_step = [&](RehearsedStep& step) {
      Backend::synchronize(rehearser_.context().device());
      long const rows = step.batch_size() == 0 ? size : step.batch_size();
      seen.closes(step, rows * rehearser_.batch_sizes().batches_of_step(), now());
      if (steps > search_.steps_per_trial && (seen.batches || seen.several)) step.stop();
    };
    bool fits = true;
    try {
      rehearser_.rehearse(plan);
    } catch (loop::NotPutBack const&) { throw; } catch (std::exception const& error) {
      if (!out_of_memory<Backend>(error)) throw;
      fits = false;
    }
    if (seen.number >= 0) look_at_rows(size, seen);
    if (fits && seen.steps == 0)
      throw Error("fulgurite.tuner.no_steps", "no step could be made with a batch size of " + std::to_string(size) +
                                                  ": a hook leaves each epoch, or the loader has no batch");
    return fits;
  }

  /// The rows of a trial's first batch follow its size, and end where the data do.
  void look_at_rows(long size, SeenTrial const& seen) {
    long const rows = seen.rows;
    bool const whole = seen.batches ? *seen.batches <= 1 : !seen.several && rows < size && rows_before_ == size_before_;
    if (rows > 0 && rows == rows_before_ && size != size_before_ && !whole)
      throw NoPlaceForSize("fulgurite.tuner.unused_size",
                           "batches have " + std::to_string(rows) + " rows with a batch size of " +
                               std::to_string(size_before_) + " and of " + std::to_string(size) +
                               ": let the loaders be made from the field, or go by what set_batch_size said");
    if (whole) steps_.bound(rows > 0 && rows < size ? rows : size);
    rows_before_ = rows;
    size_before_ = size;
  }

  auto now() const { return rehearser_.context().options().now(); }

  static std::string told(BatchSizeTrial const& trial) {
    std::string line = "batch size " + std::to_string(trial.size) + (trial.fits ? ": fits" : ": out of memory");
    if (trial.seconds_per_step) {
      line += report::formatted(", %.4g s/step", *trial.seconds_per_step);
      line += report::formatted(", %.4g samples/s", *trial.samples_per_second);
    }
    if (trial.peak_bytes) line += ", peak memory " + report::bytes_text(static_cast<std::int64_t>(*trial.peak_bytes));
    return line;
  }
  void say(std::string const& line) const {
    if (!search_.show) return;
    tell(search_.stream, line + "\n");
    std::fflush(search_.stream);
  }

  Rehearser<R>& rehearser_;
  BatchSizeSearch<Model, Data> const& search_;
  SizeTarget<Model, Data> target_;
  SizeSteps steps_;
  FoundBatchSize found_{};
  long rows_before_ = 0, size_before_ = 0;
};

}  // namespace fulgurite::tune
