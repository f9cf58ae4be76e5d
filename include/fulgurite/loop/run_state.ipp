#pragma once
// The bodies of loop/run_state.hpp.

#include <chrono>

#include <fulgurite/core/archive.hpp>
#include <fulgurite/loop/run_state.hpp>

namespace fulgurite::loop {

FULGURITE_BODY void begin_trying_out(RunCore& run) {
  static constexpr auto refuse_to_write = [](std::filesystem::path const& file) {
    throw Error("fulgurite.tuner.saves", "save_checkpoint(" + file.string() +
                                             ") in a trial run, of which nothing is written: ask "
                                             "ctx.rehearsing() first");
  };
  run.searching.rehearsing = true;
  run.loading.write = refuse_to_write;
}

FULGURITE_BODY void warn_of_unanswered(RunCore& run) {
  if (run.searching.due.empty() && run.searching.settings.empty()) return;
  run.warn("fulgurite.tuner.unanswered",
           "what ctx.request_search or ctx.request_setting asked for was not done, since no place for it followed: ask "
           "in setup, on_fit_start or on_train_epoch_start, of an epoch that is trained; in an evaluation in setup");
}

FULGURITE_BODY void forget_searches(RunCore& run) {
  run.searching.due.clear();
  run.searching.settings.clear();
  run.searching.answers = false;
}

template <class Archive>
void fold_window_length(RunCore& run, int const* written, Archive& archive) {
  if (written != nullptr) archive.option("accumulate_grad_batches", *written, run.asked.window_length);
}
FULGURITE_FOLD(INSTANTIATE, fold_window_length, RunCore&, int const*);

FULGURITE_BULK_BODY Limits::Limits(TrainerOptions const& options)
    : epochs(options.max_epochs),
      steps(options.max_steps),
      seconds(options.max_time ? std::optional(options.max_time->count()) : std::nullopt) {}

void Limits::state(auto& archive) { archive("max_epochs", epochs)("max_steps", steps)("max_time", seconds); }
FULGURITE_STATE(Limits)

FULGURITE_BODY RunPosition::RunPosition(RunCore& run, Beside const& beside)
    : run_(run),
      beside_(beside),
      repeated_(before_repeated_validation(run)),
      now_(run.asked.options.now()),
      elapsed_(run.training_seconds()),
      in_window_(run.due.rows_of_window(run.due.window.batches)) {
  if (run.clock.last_validation) validated_ = Seconds(now_ - *run.clock.last_validation).count();
  if (repeated_ != nullptr) in_window_ -= run.due.rows - repeated_->rows;
}

void RunPosition::fold_optimization(auto& archive) {
  if (beside_.automatic == nullptr) return;
  fold_window_length(run_, &beside_.automatic->accumulate_grad_batches, archive);
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
  auto stop = run_.before_cut ? due.stop_before_cut : due.stop.lasting();
  if (repeated_ != nullptr) stop = repeated_->stop.lasting();
  archive("stop", stop.holds)("stop_asked", stop.asked)("stop_why", stop.why)("monitors", stop.monitors);
  Limits limits(run_.asked.options);
  if (!lacks(archive, "limits")) archive.child("limits", limits);
  if constexpr (std::remove_cvref_t<decltype(archive)>::loading) {
    if (limits != Limits(run_.asked.options)) stop = {};
    for (auto const& one : due.other_monitors) stop.withdraw(one);
    // Where a snapshot is restored; in a fit that resumes, hooks may have requested a stop already.
    if (!run_.loading.fit_is_open) due.stop = {};
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
  if (repeated_ != nullptr) {
    auto since = repeated_->validation_since;
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

/// True in an evaluation of the run's model, which has put it into eval mode.
FULGURITE_BODY bool is_evaluated(RunCore const& run) {
  auto const* const evaluated = run.switches.evaluated.model;
  return evaluated != nullptr && evaluated == run.program->model(run);
}

/// What is switched off in the model, and still is when an evaluation under way has ended.
FULGURITE_BODY Switches switched_off(RunCore const& run) {
  auto off = run.program->switches(run.program->model(run));
  if (is_evaluated(run)) off.modules = run.switches.evaluated.modules;
  return off;
}

FULGURITE_BODY void forget_other_model(RunCore& run) {
  auto& switches = run.switches;
  bool const others = run.program->has_other_weights(run);
  // A hook, too, may give the model other weights.
  auto* const before = std::exchange(switches.model, run.program->model(run));
  if (before != switches.model || (switches.by_program && others)) switches.history = {};
}

FULGURITE_BODY void note_switches(RunCore& run, bool by_program) {
  forget_other_model(run);
  if (by_program) run.switches.history.program_ends(switched_off(run));
  else run.switches.history.hooks_end(switched_off(run));
}

FULGURITE_BODY bool switches_for_program(RunCore const& run) {
  return run.switches.by_program && !run.facts.sanity_checking;
}

FULGURITE_BODY Switched switched_by_hooks(RunCore& run) {
  if (switches_for_program(run)) note_switches(run, true);
  auto const* const before = before_repeated_validation(run);
  return run.switches.history.changed(before ? before->switches : switched_off(run));
}

/// Inside of an evaluation it sets modules when that ends.
FULGURITE_BODY void set_switches(RunCore& run, Switches off) {
  auto const& program = *run.program;
  auto* const model = program.model(run);
  if (is_evaluated(run)) run.switches.evaluated.modules = std::exchange(off.modules, program.eval_modules(model));
  program.set_switches(model, off);
}

FULGURITE_BODY void resume_switches(RunCore& run, Switched const& file) {
  set_switches(run, run.switches.history.resumed(file));
  note_switches(run, false);  // without names that the model does not have
}

FULGURITE_BODY void restore_switches(RunCore& run, SwitchHistory const& kept) {
  set_switches(run, kept.last());
  note_switches(run, true);  // so that it is this model's
  run.switches.history = kept;
}

template <class Archive>
void fold_switched(char const* name, Switched& switched, Archive& archive) {
  if (Archive::loading ? !lacks(archive, name) : !switched.nothing()) archive.child(name, switched);
}
FULGURITE_FOLD(INSTANTIATE, fold_switched, char const*, Switched&);

template <class Archive>
void fold_switches(RunCore& run, Archive& archive) {
  Switched changed, made_with;
  if constexpr (!Archive::loading) changed = switched_by_hooks(run), made_with = run.switches.made_with;
  fold_switched("switches", changed, archive);
  fold_switched("switches_when_made", made_with, archive);  // see Resumption::load_model
  if constexpr (Archive::loading)
    commit(archive, [&run, changed] {
      if (run.switches.by_program) run.switches.history.choose_as(changed);  // on_train_start is not called
      resume_switches(run, changed);
    });
}
FULGURITE_FOLD(INSTANTIATE, fold_switches, RunCore&);

FULGURITE_BODY KeepsModes::KeepsModes(RunCore& run) : run_(run), outside_(run.switches.evaluated) {
  auto* const model = run.program->model(run);
  modes_ = is_evaluated(run) ? outside_.modules : run.program->eval_modules(model);
  run.switches.evaluated = {model, modes_};
}

FULGURITE_BODY KeepsModes::~KeepsModes() {
  auto const [model, modes] = std::exchange(run_.switches.evaluated, std::move(outside_));
  if (modes == modes_) return;
  if (auto& around = run_.switches.evaluated; around.model == model) around.modules = modes;
  else run_.program->set_eval_modules(model, modes);
}

FULGURITE_BODY BeforeValidation::BeforeValidation(RunCore const& run)
    : stop(run.due.stop),
      validation_since(run.loading.validation_since),
      rows(run.due.rows),
      switches(switched_off(run)) {}
FULGURITE_MOVES_BODY(BeforeValidation);

// Not of callbacks that keep files, as their state describes the disk, or that prepare their state for each file.
FULGURITE_BODY void BeforeValidation::keep_callbacks(Callbacks all) {
  callbacks.save([&](StateSaver& archive) {
    each_remembering(all, [&](AnyCallback const& callback, std::string const& name) {
      if (!callback.table->keeps_checkpoints && !callback.table->prepares_saving) archive.child(name, callback);
    });
  });
}

/// True if a fit that resumes from a file written now repeats the validation that is under way, if there is one.
FULGURITE_BODY bool repeats_validation(RunCore const& run) {
  return run.point.at == At::after_batch && !run.due.notified.failed<hook::on_validation_end>();
}

FULGURITE_BODY BeforeValidation const* before_repeated_validation(RunCore const& run) {
  return run.before_validation && repeats_validation(run) ? &*run.before_validation : nullptr;
}

FULGURITE_BODY bool add_before_validation(RunCore const& run, std::string_view part, StateSaver& archive) {
  auto const* const before = before_repeated_validation(run);
  return before != nullptr && before->parts.add_to(archive, part);
}

FULGURITE_BODY bool add_left(RunCore const& run, std::string_view part, StateSaver& archive) {
  return run.left && run.left->add_to(archive, part);
}

template <class Archive>
void fold_callbacks(RunCore& run, Archive& archive) {
  if constexpr (Archive::loading) run.due.other_monitors.clear();
  [[maybe_unused]] auto const* const before = before_repeated_validation(run);
  archive.child("callbacks", [&](Archive& inner) {
    auto const known = each_remembering(run.callbacks, [&](AnyCallback const& callback, std::string const& name) {
      if constexpr (!Archive::loading)
        if (before != nullptr && before->callbacks.add_to(inner, name)) return;
      if (lacks(inner, name))
        return run.warn_each("fulgurite.resume.callback",
                             "the file holds no state of " + name + ", so this callback starts without one");
      auto const count = differences(inner).size();
      inner.child(name, callback);
      if (differences(inner).size() != count) run.due.other_monitors.push_back(name);
    });
    leave_out_others(inner);  // they are warned of below
    if constexpr (Archive::loading)
      for (auto const& name : inner.names())
        if (!known.contains(name)) {
          run.due.other_monitors.push_back(name);
          run.warn_each("fulgurite.resume.no_callback",
                        "the file holds a state of " + name + ", and the trainer has no such callback: it is left out");
        }
  });
}
FULGURITE_FOLD(INSTANTIATE, fold_callbacks, RunCore&);

FULGURITE_BODY std::string with_kind(std::size_t number, std::string_view kind) {
  return with_kind(std::to_string(number), kind);
}

FULGURITE_BODY std::vector<std::string> loader_names(Names train, Names validation) {
  std::vector<std::string> names;
  for (auto const type : train) names.push_back(with_kind("train", type));
  std::size_t number = 0;
  for (auto const type : validation) names.push_back(with_kind("validation " + std::to_string(number++), type));
  return names;
}

FULGURITE_BODY void save_parts(RunCore const& run, Names policies, Names optimizers,
                               std::vector<std::string> (*schedules)(), StateSaver& archive) {
  std::vector<std::string> kinds, callbacks;
  for (auto const kind : optimizers) kinds.push_back(with_kind(kinds.size(), kind));
  each_remembering(run.callbacks, [&](AnyCallback const&, std::string const& name) { callbacks.push_back(name); });
  archive.child("assembly", [&](StateSaver& inner) {
    auto name = policies.begin();
    for (auto const* const policy : {"strategy", "precision", "optimization"})
      inner(policy, std::vector<std::string>{std::string(*name++)});
    inner("optimizers", kinds)("schedules", schedules())("callbacks", callbacks);
    inner("loaders", run.loading.loaders == nullptr ? std::vector<std::string>() : run.loading.loaders());
  });
}

template <class Archive>
void fold_values(RunCore& run, Archive& archive) {
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
template <class Archive>
void fold_results(RunCore& run, Archive& archive) {
  archive.child("results", [&](Archive& inner) { fold_values(run, inner); });
}
FULGURITE_FOLD(INSTANTIATE, fold_results, RunCore&);

template <class Archive>
void fold_callbacks_before_cut(RunCore& run, Archive& archive) {
  archive.child("callbacks", [&](Archive& all) {
    each_remembering(run.callbacks, [&](AnyCallback const& callback, std::string const& name) {
      if (!callback.table->keeps_checkpoints && !lacks(all, name)) all.child(name, callback);
    });
    leave_out_others(all);
  });
}
FULGURITE_FOLD(INSTANTIATE, fold_callbacks_before_cut, RunCore&);

template <class Archive>
void fold_core_before_cut(RunCore& run, int const* window_written, bool with_outcome, Archive& archive) {
  fold_results(run, archive);
  fold_window_length(run, window_written, archive);
  archive("statistics_pass", run.due.statistics_pass);
  // The resuming program may have other callbacks than the one that wrote the file.
  if (with_outcome && !lacks(archive, "outcome")) archive("outcome", run.made.outcome);
}
FULGURITE_FOLD(INSTANTIATE, fold_core_before_cut, RunCore&, int const*, bool);

FULGURITE_BODY void keep_stop_and_switches(RunCore& run) {
  auto stop = run.due.stop;
  stop.asked = stop.asked || stop.waits;
  run.due.stop_before_cut = stop.lasting();
  run.cut_switches = switched_by_hooks(run);
}

FULGURITE_BODY void forget_cut(RunCore& run) {
  run.before_cut.reset();
  run.cut_random.reset();
  run.cut_switches = {};
}

/// Holds an entry of the file that is loaded, if it has one.
FULGURITE_BODY void fold_kept(std::optional<StateMemory>& memory, char const* name, StateLoader& archive) {
  memory.reset();
  if (archive.has(name)) memory.emplace().take(name, archive);
}
FULGURITE_BODY void fold_kept(std::optional<StateMemory> const& memory, char const*, StateSaver& archive) {
  if (memory) memory->add_to(archive);
}

template <class Archive>
void fold_own_cut(RunCore& run, Archive& archive) {
  if constexpr (Archive::loading) run.cut_switches = {};
  fold_switched("cut_switches", run.cut_switches, archive);
  fold_kept(run.cut_random, "cut_random", archive);
}
FULGURITE_FOLD(INSTANTIATE, fold_own_cut, RunCore&);

template <class Archive>
void fold_kept_cut(RunCore& run, Archive& archive) {
  fold_own_cut(run, archive);
  fold_kept(run.before_cut, "before_cut", archive);
}
FULGURITE_FOLD(INSTANTIATE, fold_kept_cut, RunCore&);

}  // namespace fulgurite::loop
