#pragma once
// The bodies of loop/shared_decisions.hpp.

#include <fulgurite/loop/shared_decisions.hpp>

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

}  // namespace fulgurite::loop

namespace fulgurite::loop {

FULGURITE_BULK_BODY void hear_stop(RunCore& run, bool by_time) {
  auto& stop = run.due.stop;
  if (!std::exchange(stop.asked, true) || !by_time) stop.by_time = by_time;
  stop.holds = true;
}

}  // namespace fulgurite::loop
