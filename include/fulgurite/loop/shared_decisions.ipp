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
