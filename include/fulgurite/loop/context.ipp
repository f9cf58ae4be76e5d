#pragma once
// The bodies of loop/context.hpp.

#include <algorithm>
#include <cstdio>

#include <fulgurite/core/error.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/loop/context.hpp>
#include <fulgurite/loop/decisions.hpp>

namespace fulgurite::loop {

/// A metric over all loaders of the running evaluation. `results` gets this value at the end; hooks read it before.
FULGURITE_BULK_BODY Figures over_loaders(RunCore& run, std::size_t metric) {
  if (run.program->metrics[metric].counted) return run.values.counted[metric];
  Figures merged;
  for (std::size_t l = 0; l != run.program->evaluation_boards(run); ++l)
    merged.merge(run.program->cells(run, l)[metric].epoch);
  return merged;
}

/// Sums figures that a decision needs over all ranks. Returns true if any rank has `news`: figures not shared yet.
FULGURITE_BULK_BODY bool share_found(RunCore& run, Figures& mine, bool news) {
  Figures all = news ? mine : Figures{};
  Figures* const figures[] = {&all};
  share(run, figures);
  if (all.count != 0) mine = all;
  return all.count != 0;
}

/// True if the metric writes rows under this name: its own, that of one of its numbers, each also with a suffix.
FULGURITE_BODY bool is_reported_as(DeclaredMetric const& metric, std::string_view name,
                                   std::vector<std::string> const& loaders) {
  if (!name.starts_with(metric.name)) return false;
  auto const rest = name.substr(metric.name.size());
  if (rest.empty() || rest == "_step" || rest == "_epoch" || rest.starts_with("/dataloader_idx_")) return true;
  return (metric.several && rest.starts_with('.')) ||
         (loaders.size() > 1 && std::ranges::find(loaders, rest.substr(1)) != loaders.end() && rest.starts_with('/'));
}

FULGURITE_BODY void check_dynamic_name(RunCore const& run, std::string_view name) {
  bool const declared = std::ranges::any_of(
      run.program->metrics, [&](auto const& metric) { return is_reported_as(metric, name, run.loader_names); });
  if (declared || name.empty() || name == "epoch" || name == "step")
    throw Error(
        "fulgurite.metric.dynamic_name",
        "ctx.log_dynamic was given the name '" + std::string(name) + "', which " +
            (declared ? "a declared metric's rows have, or could have: take another one, or log the metric by ctx.log"
                      : "is none, or a column of every row: give the number a name of its own"));
}

FULGURITE_BULK_BODY void publish_epoch(RunCore& run) {
  auto const cells = run.program->cells(run, std::nullopt);
  for (std::size_t i = 0; i != cells.size(); ++i) {
    if (cells[i].epoch.count != 0) run.values.results[i] = cells[i].epoch;
    run.values.logged[i] += cells[i].epoch.count;
  }
}

FULGURITE_BULK_BODY void publish_evaluation(RunCore& run) {
  auto& values = run.values;
  for (std::size_t i = 0; i != values.results.size(); ++i) {
    auto const merged = over_loaders(run, i);
    if (merged.count != 0) values.results[i] = merged;
    values.logged[i] += merged.count;
  }
  for (std::size_t l = 0; l != values.loader_results.size(); ++l) {
    auto const cells = run.program->cells(run, l);
    for (std::size_t i = 0; i != cells.size(); ++i) values.loader_results[l][i] = cells[i].epoch;
  }
}

FULGURITE_BULK_BODY void share(RunCore& run, std::span<Figures* const> figures) {
  if (figures.empty()) return;
  bool const of_last = run.program->splits_model;
  std::vector<double> values;
  std::vector<Reduce> how;
  auto const add = [&](double value, Reduce by) {
    values.push_back(value);
    how.push_back(by);
  };
  for (auto const* const one : figures) {
    bool const any = one->count != 0;
    add(one->sum, Reduce::sum);
    add(one->weighted, Reduce::sum);
    add(one->weight, Reduce::sum);
    add(one->least, of_last ? Reduce::sum : Reduce::min);
    add(one->greatest, of_last ? Reduce::sum : Reduce::max);
    add(static_cast<double>(one->count), Reduce::sum);
    add(any ? one->last : 0, Reduce::sum);
    add(any ? 1 : 0, Reduce::sum);
    if (of_last) add(any ? 1 : 0, Reduce::max);
  }
  if (!run.program->reduce(run, values, how)) return;
  double const* at = values.data();
  for (auto* const one : figures) {
    if (of_last && at[7] == 0 && at[8] != 0)
      throw Error("fulgurite.pipeline.metric",
                  "a metric was logged by another rank and not by the last one, whose values are everybody's: log it "
                  "in a step behind through_stages, or in a hook on all ranks");
    *one = {.last = at[7] == 0 ? 0 : at[6] / at[7],
            .sum = at[0],
            .weighted = at[1],
            .weight = at[2],
            .least = at[3],
            .greatest = at[4],
            .count = static_cast<long>(at[5])};
    at += of_last ? 9 : 8;
  }
}

}  // namespace fulgurite::loop

namespace fulgurite {

FULGURITE_BULK_BODY bool WatchedValue::is_newer_than(long before) const {
  return value && (logged == unknown || logged != before);
}

FULGURITE_BODY std::string WatchedMetric::written() const {
  std::string text(name);
  if (as == As::last) return text + ".last()";
  if (as == As::of_loader) return text + " of loader '" + std::string(loader) + "'";
  return text;
}

FULGURITE_BODY bool Context::validating_each_epoch_end() const {
  return has_validation() && options().val_check_interval.epoch_end() && options().check_val_every_n_epoch == 1;
}

FULGURITE_BULK_BODY double Context::seconds_now() const {
  asked(Asks::seconds);
  return Seconds(options().now().time_since_epoch()).count();
}

FULGURITE_BODY void Context::print(std::string_view line) const {
  asked(Asks::warn);
  if (rank() == 0) print_lines(stdout, std::string(line) + "\n");
}

FULGURITE_BULK_BODY WatchedValue Context::watched_value(WatchedMetric const& metric) const {
  auto const at = place_of(metric.name);
  return at ? watched_at(*at, metric) : WatchedValue{};
}

FULGURITE_BODY std::optional<double> Context::value(std::string_view metric) const {
  auto const at = place_of(metric);
  return at ? value_at(*at, WatchedMetric(metric)) : std::nullopt;
}

FULGURITE_BULK_BODY void Context::each_metric(FunctionRef<void(DeclaredMetric const&, std::optional<double>)> f) const {
  for (std::size_t i = 0; i != core_->program->metrics.size(); ++i)
    if (auto const& metric = core_->program->metrics[i]; !metric.several)
      f(metric, known_at(i, WatchedMetric(metric.name)));
}

FULGURITE_BODY void
Context::each_loader_value(FunctionRef<void(std::string_view, std::vector<std::optional<double>> const&)> f) const {
  asked(Asks::value);
  auto const& all = core_->values;
  for (std::size_t i = 0; i != core_->program->metrics.size(); ++i) {
    auto const& metric = core_->program->metrics[i];
    if (!metric.logger || !per_epoch(metric, Origin::evaluation) || all.results[i].count == 0) continue;
    std::vector<std::optional<double>> of_loaders;
    for (auto const& loader : all.loader_results) of_loaders.push_back(loader[i].reduced(metric.reduce));
    if (std::none_of(of_loaders.begin(), of_loaders.end(), [](auto const& value) { return value.has_value(); }))
      of_loaders.assign(of_loaders.size(), all.results[i].reduced(metric.reduce));
    f(reported_name(metric, Origin::evaluation, true), of_loaders);
  }
  // Each number of the metrics that have several, in the loaders' order.
  std::vector<std::string> reported;
  for (auto const& numbers : all.several)
    for (auto const& [name, number] : numbers) {
      if (std::find(reported.begin(), reported.end(), name) != reported.end()) continue;
      reported.push_back(name);
      std::vector<std::optional<double>> of_loaders(all.loader_results.size());
      for (std::size_t l = 0; l != of_loaders.size(); ++l)
        for (auto const& [own, number_of_loader] : all.several[l])
          if (own == name) of_loaders[l] = number_of_loader;
      f(name, of_loaders);
    }
}

FULGURITE_BODY void Context::warn(std::string_view identifier, std::string_view sentence) const {
  require_identifier(identifier);
  core_->warn(identifier, sentence);
}

FULGURITE_BODY void Context::warn_each(std::string_view identifier, std::string_view sentence) const {
  require_identifier(identifier);
  core_->warn_each(identifier, sentence);
}

FULGURITE_BODY void Context::request_stop(std::string_view why) const {
  if (asked(Asks::request_stop), stage() != Stage::fit) return;
  note_why(why);
  loop::request_stop(*core_);
}

FULGURITE_BODY void Context::request_stop_for_now(std::string_view why) const {
  asked(Asks::request_stop);
  if (stage() != Stage::fit || core_->due.stop.holds || core_->due.stop.waits) return;
  note_why(why);
  loop::request_stop(*core_, true);
}

FULGURITE_BODY void Context::set_stop_request(std::string const& who, bool wanted, std::string const& why) const {
  if (asked(Asks::request_stop), stage() != Stage::fit) return;
  core_->due.stop.set_monitor({who, why.empty() ? who : why}, wanted);
}

FULGURITE_BODY void Context::log_scalars(std::span<Scalar const> row) const {
  asked(Asks::log_scalars);
  for (auto const& scalar : row) core_->due.posted.push_back({std::string(scalar.name), scalar.value});
}

FULGURITE_BODY void Context::request_checkpoint(CheckpointRequest request) const {
  if (asked(Asks::request_checkpoint), core_->facts.stage != Stage::fit)
    throw Error("fulgurite.context.outside_fit",
                "a checkpoint " + request.path.string() +
                    " was requested outside fit, where none is written: ask ctx.stage() first");
  core_->due.requests.push_back(std::move(request));
}

FULGURITE_BODY void Context::request_statistics_pass() const {
  if (asked(Asks::request_statistics_pass), stage() != Stage::fit) return;
  core_->due.statistics_pass = true;
}

FULGURITE_BODY void Context::set_log_dir(std::filesystem::path dir) const {
  if (asked(Asks::set_log_dir), core_->made.log_dir.empty()) core_->made.log_dir = std::move(dir);
}

FULGURITE_BODY void Context::note_why(std::string_view why) const {
  if (auto& noted = core_->due.stop.why; noted.empty()) noted = why;
}

FULGURITE_BODY void Context::require_identifier(std::string_view identifier) const {
  asked(Asks::warn);
  if (!loop::is_identifier(identifier))
    throw Error("fulgurite.context.warning", "'" + std::string(identifier) +
                                                 "' does not identify a warning: use words in lower case with points "
                                                 "between them, as mine.rate.high");
}

FULGURITE_BODY std::optional<std::size_t> Context::place_of(std::string_view name) const {
  auto const all = core_->program->metrics;
  for (std::size_t i = all.size(); i-- != 0;)
    if (!all[i].several && all[i].name == name) return i;
  return std::nullopt;
}

FULGURITE_BULK_BODY std::optional<double> Context::value_at(std::size_t at, WatchedMetric const& metric) const {
  if (auto const so_far = counted_so_far(at, metric, false)) return so_far;
  return reduced(at, metric, find(at, metric, true).figures);
}

FULGURITE_BULK_BODY std::optional<double> Context::known_at(std::size_t at, WatchedMetric const& metric) const {
  return reduced(at, metric, find(at, metric, false).figures);
}

FULGURITE_BULK_BODY WatchedValue Context::watched_at(std::size_t at, WatchedMetric const& metric) const {
  if (auto const so_far = counted_so_far(at, metric, true)) return {so_far, WatchedValue::unknown};
  auto found = find(at, metric, true);
  if (core_->program->is_distributed) {
    bool const news = !found.is_shared;
    found.is_live = loop::share_found(*core_, found.figures, news) || (found.is_live && !news);
  }
  long const before = core_->values.logged[at];
  return {reduced(at, metric, found.figures), found.is_live ? before + found.figures.count : before};
}

template <class F>
void Context::each_live_board(F&& f) const {
  if (source_ == loop::MetricSource::training) return f(loop::BoardNumber());
  if (!core_->facts.validating) return;
  for (std::size_t l = 0; l != core_->program->evaluation_boards(*core_); ++l) f(loop::BoardNumber(l));
}

FULGURITE_BULK_BODY bool Context::waits_at(std::size_t at) const {
  asked(Asks::value);
  bool any = false;
  each_live_board([&](loop::BoardNumber board) { any = any || cell(board, at).waiting != 0; });
  return any;
}

FULGURITE_BULK_BODY Context::Found Context::find(std::size_t at, WatchedMetric const& metric, bool collects) const {
  asked(Asks::value);
  auto const read = [&](loop::BoardNumber board) -> Cell const& {
    if (collects) core_->program->collect(*core_, board);
    return cell(board, at);
  };
  if (metric.as == WatchedMetric::As::of_loader) {
    auto const l = loader_at(metric);
    if (l == core_->loader_names.size()) return {};
    if (source_ != loop::MetricSource::training && core_->facts.validating)
      if (auto const& own = read(l); own.epoch.count != 0) return {own.epoch, own.shared, true};
    return {core_->values.loader_results[l][at], true, false};
  }
  Figures live;
  bool is_shared = false;
  each_live_board([&](loop::BoardNumber board) { read(board); });
  if (source_ == loop::MetricSource::training) {
    live = cell(std::nullopt, at).epoch;
    is_shared = cell(std::nullopt, at).shared;
  } else if (core_->facts.validating) {
    live = loop::over_loaders(*core_, at);
    is_shared = core_->program->metrics[at].counted;
  }
  if (live.count == 0 && trains_on(at)) {
    auto const& training = read(std::nullopt);
    live = training.epoch;
    is_shared = training.shared;
  }
  if (live.count != 0) return {live, is_shared, true};
  return {core_->values.results[at], true, false};
}

FULGURITE_BULK_BODY std::optional<double> Context::counted_so_far(std::size_t at, WatchedMetric const& metric,
                                                                  bool of_all_ranks) const {
  if (!core_->program->metrics[at].counted) return std::nullopt;
  asked(Asks::value);
  loop::CountedSoFar what{.metric = at, .source = source_, .loader = std::nullopt, .of_all_ranks = of_all_ranks};
  if (metric.as == WatchedMetric::As::of_loader) what.loader = loader_at(metric);
  return core_->program->counted_so_far(*core_, what);
}

FULGURITE_BULK_BODY std::optional<double> Context::reduced(std::size_t at, WatchedMetric const& metric,
                                                           Figures const& figures) const {
  if (metric.as == WatchedMetric::As::last) return figures.count ? std::optional(figures.last) : std::nullopt;
  return figures.reduced(core_->program->metrics[at].reduce);
}

FULGURITE_BULK_BODY std::size_t Context::loader_at(WatchedMetric const& metric) const {
  auto const& names = core_->loader_names;
  return static_cast<std::size_t>(std::find(names.begin(), names.end(), metric.loader) - names.begin());
}

FULGURITE_BULK_BODY bool Context::trains_on(std::size_t at) const {
  if (source_ != loop::MetricSource::validation_in_fit || core_->facts.stage != Stage::fit) return false;
  for (std::size_t l = 0; l != core_->program->evaluation_boards(*core_); ++l)
    if (cell(l, at).epoch.count != 0) return false;
  auto const& training = cell(std::nullopt, at);
  return training.epoch.count != 0 || training.waiting != 0;
}

FULGURITE_BULK_BODY Cell const& Context::cell(loop::BoardNumber board, std::size_t at) const {
  return core_->program->cells(*core_, board)[at];
}

}  // namespace fulgurite
