#pragma once
// The bodies of loop/run_state.hpp.

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include <fulgurite/core/archive.hpp>
#include <fulgurite/loop/run_state.hpp>

namespace fulgurite::loop {

FULGURITE_BULK_BODY Limits::Limits(TrainerOptions const& options)
    : epochs(options.max_epochs),
      steps(options.max_steps),
      seconds(options.max_time ? std::optional(options.max_time->count()) : std::nullopt) {}

void Limits::state(auto& archive) { archive("max_epochs", epochs)("max_steps", steps)("max_time", seconds); }
FULGURITE_STATE(Limits)

FULGURITE_BODY RunPosition::RunPosition(RunCore& run, Beside const& beside)
    : run_(run),
      beside_(beside),
      now_(run.asked.options.now()),
      elapsed_(run.training_seconds()),
      in_window_(run.due.rows_of_window(run.due.window.batches)) {
  if (run.clock.last_validation) validated_ = Seconds(now_ - *run.clock.last_validation).count();
  if (beside_.repeated != nullptr) in_window_ -= run.due.rows - beside_.repeated->rows;
}

void RunPosition::fold_optimization(auto& archive) {
  if (beside_.automatic == nullptr) return;
  archive.option("accumulate_grad_batches", beside_.automatic->accumulate_grad_batches, run_.asked.window_length);
  auto const& clip = beside_.automatic->clip;
  archive.option("clip", std::string(clip.kind == Clip::Kind::none   ? "none"
                                     : clip.kind == Clip::Kind::norm ? "norm"
                                                                     : "value"));
  archive.option("clip limit", clip.limit);
}

// A stop that was requested, rather than caused by a limit, stays in effect until a limit changes, or an option of the
// callback that requested it. So restarting an unchanged program does not train further, whether the stop cut an epoch
// short or not.
void RunPosition::fold_stop(auto& archive) {
  auto& due = run_.due;
  auto stop = beside_.has_before_cut ? due.stop_before_cut : due.stop.lasting();
  if (beside_.repeated != nullptr) stop = beside_.repeated->stop.lasting();
  archive("stop", stop.holds)("stop_asked", stop.asked)("stop_why", stop.why)("monitors", stop.monitors);
  Limits limits(run_.asked.options);
  if (!lacks(archive, "limits")) archive.child("limits", limits);
  if constexpr (std::remove_cvref_t<decltype(archive)>::loading) {
    if (limits != Limits(run_.asked.options)) stop = {};
    for (auto const& one : due.other_monitors) stop.set_monitor({.who = one}, false);
    if (stop.asked) due.stop.asked = true, due.stop.by_time = false, due.stop.why = stop.why;
    for (auto const& one : stop.monitors) due.stop.set_monitor(one, true);
    due.stop.holds = due.stop.holds || stop.holds;
    due.stop_of_file = stop.holds;
    due.stop_before_cut = std::move(stop);
  }
}

void RunPosition::state(auto& archive) {
  archive("point", run_.point)("heard", run_.due.notified);
  if (!lacks(archive, "shares_of_epoch"))
    archive("shares_of_epoch", beside_.shares_of_data);  // it is compared before training: see resumption.hpp
  fold_optimization(archive);
  if (beside_.repeated != nullptr) {
    auto since = beside_.repeated->validation_since;
    archive("validation_since", since);
  } else {
    archive("validation_since", run_.loading.validation_since);
  }
  archive("statistics_pass", run_.due.statistics_pass)("training_since", run_.loading.training_since)(
      "finite_read_at", beside_.finite_read_at)("scaled_out", beside_.scaled_out)("outcome", run_.made.outcome);
  fold_stop(archive);
  archive("elapsed", elapsed_)("since_validation", validated_);
  // Each process counts its rows from 0.
  archive("window_began", run_.due.window.batches)("window_rows", in_window_);
}
FULGURITE_STATE(RunPosition)

FULGURITE_BODY void RunPosition::restore() {
  auto& clock = run_.clock;
  run_.due.window.before = run_.due.rows - in_window_;
  clock.earlier = elapsed_;
  if (clock.training_began) clock.training_began = now_;  // in a fit that rolls back
  if (validated_)
    clock.last_validation = now_ - std::chrono::duration_cast<TrainerOptions::Clock::duration>(Seconds(*validated_));
  run_.facts.accumulating = run_.facts.has_gradients = run_.point.accumulating;
  run_.facts.is_last_batch = run_.point.last;
  run_.facts.batch_idx = std::max(0L, run_.progress.batch - 1);
}

FULGURITE_BODY bool repeats_validation(RunCore const& run) {
  return run.point.at == At::after_batch && !run.due.notified.failed<hook::on_validation_end>();
}

template <class Archive>
void fold_callbacks(RunCore& run, FunctionRef<bool(std::string const& name)> add_kept, Archive& archive) {
  if constexpr (Archive::loading) run.due.other_monitors.clear();
  auto const known = each_remembering(run.callbacks, [&](AnyCallback const& callback, std::string const& name) {
    if (add_kept(name)) return;
    if (lacks(archive, name))
      return run.warn_each("fulgurite.resume.callback",
                           "the file holds no state of " + name + ", so this callback starts without one");
    auto const before = differences(archive).size();
    archive.child(name, callback);
    if (differences(archive).size() != before) run.due.other_monitors.push_back(name);
  });
  leave_out_others(archive);  // they are warned of below
  if constexpr (Archive::loading)
    for (auto const& name : archive.names())
      if (!known.contains(name)) {
        run.due.other_monitors.push_back(name);
        run.warn_each("fulgurite.resume.no_callback",
                      "the file holds a state of " + name + ", and the trainer has no such callback: it is left out");
      }
}
FULGURITE_INSTANTIATE(void fold_callbacks(RunCore&, FunctionRef<bool(std::string const&)>, StateSaver&));
FULGURITE_INSTANTIATE(void fold_callbacks(RunCore&, FunctionRef<bool(std::string const&)>, StateLoader&));

FULGURITE_BODY std::string with_kind(std::size_t number, std::string_view kind) {
  return with_kind(std::to_string(number), kind);
}

FULGURITE_BODY std::vector<std::string> loader_names(std::string_view train,
                                                     std::initializer_list<std::string_view> validation) {
  std::vector<std::string> names;
  if (!train.empty()) names.push_back(with_kind("train", train));
  std::size_t number = 0;
  for (auto const type : validation) names.push_back(with_kind("validation " + std::to_string(number++), type));
  return names;
}

FULGURITE_BODY std::vector<std::string> only(std::string key) {
  std::vector<std::string> keys;
  keys.push_back(std::move(key));
  return keys;
}

FULGURITE_BODY void save_names_of_callbacks_and_loaders(RunCore const& run, StateSaver& archive) {
  std::vector<std::string> callbacks;
  each_remembering(run.callbacks, [&](AnyCallback const&, std::string const& name) { callbacks.push_back(name); });
  archive("callbacks", callbacks);
  archive("loaders", run.loading.loaders == nullptr ? std::vector<std::string>() : run.loading.loaders());
}

template <class Archive>
void fold_results(RunCore& run, Archive& archive) {
  auto& values = run.values;
  archive("loader_names", run.loader_names);
  if constexpr (Archive::loading)
    values.loader_results.resize(run.loader_names.size(), AllFigures(values.results.size()));
  auto const fold = [&](auto& inner, AllFigures& results) {
    for (std::size_t i = 0; i != results.size(); ++i)
      if (auto const name = run.program->metrics[i].name; !lacks(inner, name)) inner.child(name, results[i]);
    leave_out_others(inner);
  };
  archive.child("logged", [&](auto& inner) {
    for (std::size_t i = 0; i != values.logged.size(); ++i)
      if (auto const name = run.program->metrics[i].name; !lacks(inner, name)) inner(name, values.logged[i]);
    leave_out_others(inner);
  });
  archive.child("merged", [&](auto& inner) { fold(inner, values.results); });
  for (std::size_t loader = 0; loader != values.loader_results.size(); ++loader)
    archive.child(std::to_string(loader), [&](auto& inner) { fold(inner, values.loader_results[loader]); });
}
FULGURITE_INSTANTIATE(void fold_results(RunCore&, StateSaver&));
FULGURITE_INSTANTIATE(void fold_results(RunCore&, StateLoader&));

}  // namespace fulgurite::loop
