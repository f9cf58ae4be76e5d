#pragma once
// The bodies of loop/decisions.hpp.

#include <fulgurite/core/error.hpp>
#include <fulgurite/loop/decisions.hpp>

namespace fulgurite::loop {

FULGURITE_BODY void wish_stop(RunCore& run, bool by_time) {
  run.due.stop.by_time = by_time;
  if (run.program->is_distributed) run.due.stop.waits = true;
  else run.due.stop.holds = run.due.stop.asked = true;
}

FULGURITE_BULK_BODY void FiguresOnTheWay::add(Figures& figures) {
  all_.push_back(&figures);
  bool const any = figures.count != 0;
  add(figures.sum, Reduce::sum);
  add(figures.weighted, Reduce::sum);
  add(figures.weight, Reduce::sum);
  add(figures.least, of_last_ ? Reduce::sum : Reduce::min);
  add(figures.greatest, of_last_ ? Reduce::sum : Reduce::max);
  add(static_cast<double>(figures.count), Reduce::sum);
  add(any ? figures.last : 0, Reduce::sum);
  add(any ? 1 : 0, Reduce::sum);
  if (of_last_) add(any ? 1 : 0, Reduce::max);
}

FULGURITE_BULK_BODY void FiguresOnTheWay::arrive() {
  std::size_t const each = of_last_ ? 9 : 8;
  for (std::size_t i = 0; i != all_.size(); ++i) {
    double const* const at = &values_[i * each];
    if (of_last_ && at[7] == 0 && at[8] != 0)
      throw Error("fulgurite.pipeline.metric",
                  "a metric was logged by another rank and not by the last one, whose values are everybody's: log it "
                  "in a step behind through_stages, or in a hook on all ranks");
    *all_[i] = {.last = at[7] == 0 ? 0 : at[6] / at[7],
                .sum = at[0],
                .weighted = at[1],
                .weight = at[2],
                .least = at[3],
                .greatest = at[4],
                .count = static_cast<long>(at[5])};
  }
}

FULGURITE_BULK_BODY void FiguresOnTheWay::add(double value, Reduce how) {
  values_.push_back(value);
  how_.push_back(how);
}

FULGURITE_BULK_BODY void share(RunCore& run, FiguresOnTheWay& figures) {
  if (!figures.empty() && run.program->reduce(run, figures.values(), figures.how())) figures.arrive();
}

FULGURITE_BULK_BODY void share_epoch(RunCore& run, Origin origin) {
  if (run.program->metrics.empty() || !run.program->is_distributed) return;
  run.program->collect(run, std::nullopt);
  auto const cells = run.program->cells(run, std::nullopt);
  AllFigures all(cells.size());
  FiguresOnTheWay figures(run.program->splits_model);
  for (std::size_t i = 0; i != all.size(); ++i) {
    if (!cells[i].shared && cells[i].origin == origin) all[i] = cells[i].epoch;
    figures.add(all[i]);
  }
  share(run, figures);
  for (std::size_t i = 0; i != all.size(); ++i)
    if (all[i].count != 0) {
      cells[i].epoch = all[i];
      cells[i].shared = true;
    }
}

FULGURITE_BULK_BODY bool share_found(RunCore& run, Figures& mine, bool news) {
  Figures all = news ? mine : Figures{};
  FiguresOnTheWay figures(run.program->splits_model);
  figures.add(all);
  share(run, figures);
  if (all.count != 0) mine = all;
  return all.count != 0;
}

FULGURITE_BULK_BODY void share_evaluation(RunCore& run) {
  if (run.program->metrics.empty() || !run.program->is_distributed) return;
  FiguresOnTheWay figures(run.program->splits_model);
  auto const boards = run.program->evaluation_boards(run);
  for (std::size_t b = 0; b != boards; ++b) {
    run.program->collect(run, b);
    for (auto& cell : run.program->cells(run, b))
      if (!cell.shared) figures.add(cell.epoch);
  }
  share(run, figures);
  if (!run.program->splits_model) return;
  for (std::size_t b = 0; b != boards; ++b)  // where it was not logged, its origin is not set yet
    for (auto& cell : run.program->cells(run, b))
      if (cell.epoch.count != 0) cell.origin = Origin::evaluation;
}

FULGURITE_BULK_BODY void share_step_values(RunCore& run) {
  auto const cells = run.program->cells(run, std::nullopt);
  auto const metrics = run.program->metrics;
  std::vector<double> values;
  std::vector<Reduce> how;
  for (std::size_t i = 0; i != cells.size(); ++i) {
    if (!metrics[i].sync_on_step) continue;
    bool const mean = metrics[i].reduce == Reduce::mean;
    values.push_back(mean ? cells[i].epoch.last * cells[i].weight : cells[i].epoch.last);
    how.push_back(mean ? Reduce::sum : metrics[i].reduce);
    values.push_back(cells[i].weight);
    how.push_back(Reduce::sum);
  }
  if (!run.program->reduce(run, values, how)) return;
  for (std::size_t i = 0, at = 0; i != cells.size(); ++i) {
    if (!metrics[i].sync_on_step) continue;
    bool const mean = metrics[i].reduce == Reduce::mean;
    cells[i].epoch.last = mean ? values[at] / values[at + 1] : values[at];
    at += 2;
  }
}

FULGURITE_BULK_BODY void share_last_rank(RunCore& run) {
  constexpr std::size_t each = 9;
  auto const cells = run.program->cells(run, std::nullopt);
  std::vector<double> values;
  for (auto const& cell : cells) {
    auto const& f = cell.epoch;
    values.insert(values.end(), {cell.in_step_row ? 1.0 : 0.0, static_cast<double>(cell.origin), f.last, f.sum,
                                 f.weighted, f.weight, f.least, f.greatest, static_cast<double>(f.count)});
  }
  std::vector<Reduce> const how(values.size(), Reduce::sum);  // with a split model: of the last rank only
  if (!run.program->reduce(run, values, how)) return;
  for (std::size_t i = 0; i != cells.size(); ++i) {
    double const* const at = &values[i * each];
    if (at[8] == 0) continue;
    cells[i].in_step_row = at[0] != 0;
    cells[i].origin = static_cast<Origin>(static_cast<int>(at[1]));
    cells[i].epoch = {.last = at[2],
                      .sum = at[3],
                      .weighted = at[4],
                      .weight = at[5],
                      .least = at[6],
                      .greatest = at[7],
                      .count = static_cast<long>(at[8])};
  }
}

FULGURITE_BULK_BODY bool is_too_few(Error const& error) {
  return error.identifier() == "fulgurite.metric.one_class" ||
         error.identifier() == "fulgurite.metric.constant_target" || error.identifier() == "fulgurite.metric.empty";
}

FULGURITE_BULK_BODY void hear_stop(RunCore& run, bool by_time) {
  auto& stop = run.due.stop;
  if (!std::exchange(stop.asked, true) || !by_time) stop.by_time = by_time;
  stop.holds = true;
}

FULGURITE_BULK_BODY std::optional<long> limited(std::optional<long> size, Limit const& limit, std::string const& name) {
  if (limit.kind == Limit::Kind::batches) return size ? std::min(*size, limit.batches) : limit.batches;
  if (limit.none()) return 0;
  if (!size) {
    if (limit.all()) return std::nullopt;
    throw Error("fulgurite.options.fraction_of_unsized",
                name + " is a Fraction, but the loader has no size(): use a count of batches");
  }
  auto const part = static_cast<long>(static_cast<double>(*size) * limit.part);
  if (part == 0 && *size > 0)
    throw Error("fulgurite.options.fraction_too_small",
                name + " = " + std::to_string(limit.part) + " of " + std::to_string(*size) +
                    " batches is less than one: use at least " + std::to_string(1.0 / static_cast<double>(*size)));
  return part;
}

FULGURITE_BULK_BODY EpochPlan plan_epoch(TrainerOptions const& o, std::optional<long> size, std::optional<long> taken,
                                         bool has_validation) {
  EpochPlan plan;
  (size ? plan.batches : plan.limit) = taken;
  auto const& v = o.val_check_interval;
  if (!has_validation) return plan;
  if (v.kind == ValidationInterval::Kind::batches) {
    plan.interval = v.batches;
    if (plan.batches && v.batches > *plan.batches && o.check_val_every_n_epoch)
      throw Error(
          "fulgurite.options.val_check_interval",
          "val_check_interval = " + std::to_string(v.batches) + " batches is more than the " +
              std::to_string(*plan.batches) +
              " of an epoch, so validation would never run: lower it, or set check_val_every_n_epoch = std::nullopt");
  } else if (v.kind == ValidationInterval::Kind::fraction) {
    if (plan.batches) plan.interval = std::max(1L, static_cast<long>(static_cast<double>(*plan.batches) * v.part));
    else if (!v.epoch_end())
      throw Error("fulgurite.options.fraction_of_unsized",
                  "val_check_interval is a Fraction, but the training loader has no size(): use a count of batches");
  }
  return plan;
}

FULGURITE_BULK_BODY bool validates_in(TrainerOptions const& o, int epoch) {
  return !o.check_val_every_n_epoch || (epoch + 1) % *o.check_val_every_n_epoch == 0;
}

FULGURITE_BULK_BODY bool asks_for_batches(RunCore const& run, SafePoint const& point) {
  if (point.at >= At::epoch_end) return false;
  if (point.at == At::before_batch && !point.began && run.progress.batch == 0) return false;
  return point.at <= At::batch_end || !(point.last || steps_exhausted(run) || stops(run));
}

FULGURITE_BULK_BODY std::string end_reason(RunCore const& run) {
  auto const& options = run.asked.options;
  auto const& stop = run.due.stop;
  if (steps_exhausted(run)) return "max_steps = " + std::to_string(*options.max_steps);
  if (epochs_exhausted(run)) return "max_epochs = " + std::to_string(*options.max_epochs);
  if (!stops(run)) return {};
  if (!stop.asked && !stop.monitors.empty()) return stop.monitors.front().why;
  if (!stop.why.empty()) return stop.why;
  return stop.by_time ? "max_time" : "a stop that the model or a callback requested";
}

FULGURITE_BULK_BODY bool reopen_epoch(RunCore& run, SafePoint& point) {
  auto& progress = run.progress;
  bool const ends = point.at == At::epoch_end && !point.last;
  bool const ended = point.at > At::epoch_end && progress.cut_short >= 0;
  if ((!ends && !ended) || steps_exhausted(run) || stops(run)) return false;
  if (ended) {
    --progress.epoch;
    progress.batch = progress.window_start = std::exchange(progress.cut_short, -1);
  }
  if (progress.batch == 0) point = {.at = At::after_epoch};
  else point = {.at = At::before_batch, .began = true, .observed = progress.global_step};
  return true;
}

FULGURITE_BULK_BODY void warn_of_few_rows(RunCore& run, EpochPlan const& plan) {
  auto const& options = run.asked.options;
  if (!plan.batches || options.fast_dev_run != 0) return;
  long const steps = (*plan.batches + run.asked.window_length - 1) / run.asked.window_length;
  if (options.log_every_n_steps > steps)
    run.warn("fulgurite.options.few_rows",
             "the steps of an epoch (" + std::to_string(steps) + ") are fewer than log_every_n_steps = " +
                 std::to_string(options.log_every_n_steps) + ": lower it to see the values of steps");
}

FULGURITE_BULK_BODY void warn_of_long_window(RunCore& run, EpochPlan const& plan) {
  if (!plan.batches || run.asked.window_length <= *plan.batches || run.asked.options.fast_dev_run != 0) return;
  run.warn("fulgurite.options.long_window",
           "accumulate_grad_batches = " + std::to_string(run.asked.window_length) + " is more than the " +
               std::to_string(*plan.batches) +
               " batches of an epoch. A window ends with its epoch, so each step is the mean of " +
               std::to_string(*plan.batches) + " batches: lower accumulate_grad_batches, or make epochs longer");
}

}  // namespace fulgurite::loop
