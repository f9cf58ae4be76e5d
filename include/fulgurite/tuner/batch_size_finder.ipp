#pragma once
// The bodies of tuner/batch_size_finder.hpp.

#include <chrono>
#include <fcntl.h>

#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/tuner/batch_size_finder.hpp>

namespace fulgurite::tune {

FULGURITE_BODY std::optional<long> SizeSteps::next() const {
  bool const enough = (mode_ == power ? trials_ : fitted_) >= max_trials_;
  return over_ || enough ? std::nullopt : std::optional(size_);
}

FULGURITE_BODY void SizeSteps::bound(long samples) {
  samples_ = samples;
  size_ = std::min(size_, samples);
}

FULGURITE_BODY void SizeSteps::fits() {
  ++trials_;
  ++fitted_;
  low_ = size_;
  if (size_ >= samples_ || size_ >= most_) over_ = true;
  else if (mode_ == power || !high_) size_ = twice();
  else between();
}

FULGURITE_BODY void SizeSteps::fails() {
  ++trials_;
  high_ = size_;
  if (mode_ == binsearch) return between();
  over_ = fitted_ > 0 || size_ == 1;
  size_ /= 2;
}

FULGURITE_BODY std::optional<long> SizeSteps::found() const {
  if (fitted_ == 0) return std::nullopt;
  if (mode_ == power || !high_) return low_;
  return std::max(1L, static_cast<long>(static_cast<double>(low_) * (1 - margin_)));
}

FULGURITE_BODY long SizeSteps::twice() const { return std::min({size_ > most_ / 2 ? most_ : 2 * size_, samples_}); }

FULGURITE_BODY void SizeSteps::between() {
  long const low = std::max(1L, low_);
  if (*high_ - low > 1) size_ = (low + *high_) / 2;
  else if (low_ == 0 && *high_ > 1) size_ = 1;  // size 1 was assumed to fit
  else over_ = true;
}

FULGURITE_BODY std::optional<long> FoundBatchSize::fastest() const {
  BatchSizeTrial const* best = nullptr;
  for (auto const& trial : trials)
    if (trial.samples_per_second && (best == nullptr || *trial.samples_per_second > *best->samples_per_second))
      best = &trial;
  return best == nullptr ? std::nullopt : std::optional(best->size);
}

FULGURITE_BODY std::string FoundBatchSize::table() const {
  auto const text = [](std::optional<double> const& value, char const* format) {
    return value ? report::formatted(format, *value) : "";
  };
  report::TextTable table{
      {{.title = "batch size"}, {.title = "s/step"}, {.title = "samples/s"}, {.title = "peak memory"}, {.title = ""}}};
  for (auto const& trial : trials)
    table.add({std::to_string(trial.size), text(trial.seconds_per_step, "%.6f"), text(trial.samples_per_second, "%.0f"),
               trial.peak_bytes ? report::bytes_text(static_cast<std::int64_t>(*trial.peak_bytes)) : "",
               !trial.fits               ? "out of memory"
               : trial.size == fastest() ? "fastest"
                                         : ""});
  return table.text();
}

FULGURITE_BODY std::string FoundBatchSize::csv() const {
  auto const cell = [](std::optional<double> const& value) { return value ? exact_number(*value) : ""; };
  std::string all = "batch_size,fits,seconds_per_step,samples_per_second,peak_bytes\n";
  for (auto const& trial : trials) {
    all += std::to_string(trial.size) + (trial.fits ? ",1," : ",0,");
    all += cell(trial.seconds_per_step) + ',' + cell(trial.samples_per_second) + ',' + cell(trial.peak_bytes);
    all += '\n';
  }
  return all;
}

FULGURITE_BODY report::Plot FoundBatchSize::plot() const {
  auto sorted = trials;
  std::erase_if(sorted, [](auto const& trial) { return !trial.samples_per_second; });
  std::ranges::sort(sorted, {}, &BatchSizeTrial::size);
  report::Plot plot{.title = "Batch sizes",
                    .x = {.name = "batch size", .scale = report::Scale::log2},
                    .y = {.name = "samples per second"},
                    .curves = {{}}};
  for (auto const& trial : sorted) {
    plot.curves[0].x.push_back(static_cast<double>(trial.size));
    plot.curves[0].y.push_back(*trial.samples_per_second);
    std::string words = trial.size == fastest() ? "fastest: " : trial.size == size ? "found: " : "";
    if (!words.empty())
      plot.marks.push_back(
          {.x = plot.curves[0].x.back(), .y = plot.curves[0].y.back(), .label = words += std::to_string(trial.size)});
  }
  return plot;
}

FULGURITE_BODY void FoundBatchSize::save(std::filesystem::path const& file) const {
  if (file.extension() == ".csv") write_durably(file, csv());
  else plot().save(file);
}

FULGURITE_BODY void SeenTrial::opens(RehearsedStep const& step) {
  several = several || (number >= 0 && step.number() > number && step.batch_idx() > opened_);
  number = step.number();
  opened_ = step.batch_idx();
  if (number == 0) rows = step.batch_size();
}

FULGURITE_BODY void SeenTrial::closes(RehearsedStep const& step, long samples, Clock::time_point now) {
  several = several || step.batch_idx() > opened_;
  last_ = now;
  if (steps++ == 0) {
    first_ = now;
    first_samples_ = samples;
  } else {
    samples_ += samples;
  }
}

FULGURITE_BODY void SeenTrial::rate(BatchSizeTrial& trial, Clock::time_point begin) const {
  bool const alone = steps == 1;
  double const seconds = std::chrono::duration<double>(last_ - (alone ? begin : first_)).count();
  if (seconds <= 0) return;
  trial.seconds_per_step = seconds / static_cast<double>(std::max(1L, steps - 1));
  trial.samples_per_second = static_cast<double>(alone ? first_samples_ : samples_) / seconds;
}

}  // namespace fulgurite::tune
