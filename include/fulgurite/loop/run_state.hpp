#pragma once
// The state of a run: functions that save or load its parts, depending on the archive. Files, rollback of replayed
// steps, and resuming all use them. See docs/checkpoint.md.

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/concept/concepts.hpp>
#include <fulgurite/concept/data.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/loop/automatic.hpp>
#include <fulgurite/loop/callbacks.hpp>
#include <fulgurite/loop/data_source.hpp>
#include <fulgurite/loop/decisions.hpp>
#include <fulgurite/loop/parts.hpp>
#include <fulgurite/loop/run.hpp>

namespace fulgurite::loop {

// The state at the start of a validation inside fit. A file that is written during the validation, or after it failed,
// holds this state: a fit that resumes from the file repeats the whole validation.

/// True if a fit that resumes from a file written now repeats the validation that is under way, if there is one.
bool repeats_validation(RunCore const& run);
/// The state before the validation that a fit repeats when it resumes from a file written now; nullptr if it repeats
/// none.
template <class R>
BeforeValidation<R> const* before_repeated_validation(State<R> const& run) {
  return run.before_validation && repeats_validation(run) ? &*run.before_validation : nullptr;
}

/// Saves one of the parts from before the validation. Returns false if the part was not kept or no validation is
/// repeated: then save the current state.
template <class R, class Archive>
bool add_before_validation(State<R> const& run, std::string_view part, Archive& archive) {
  if constexpr (!Archive::loading && requires { run.before_validation->parts.add_to(archive, part); })
    if (auto const* const before = before_repeated_validation(run)) return before->parts.add_to(archive, part);
  return false;
}
/// Does the same for the callback of that name.
template <class R, class Archive>
bool add_callback_before_validation(State<R> const& run, std::string_view name, Archive& archive) {
  if constexpr (!Archive::loading && requires { run.before_validation->callbacks.add_to(archive, name); })
    if (auto const* const before = before_repeated_validation(run)) return before->callbacks.add_to(archive, name);
  return false;
}

/// The random state with which a resumed fit continues.
template <class R, class Archive>
void fold_random(State<R>& run, Archive& archive) {
  auto random = R::Backend::rng_state();
  if constexpr (!Archive::loading)
    if (auto const* const before = before_repeated_validation(run)) random = before->random;
  archive.child("random", random);
  if constexpr (Archive::loading) random.restore();
}

/// The callbacks, each under its key, so that files stay readable when a program gains a callback. `add_kept(name)`
/// saves another state than a callback's current one, and returns true if there is one.
template <class Archive>
void fold_callbacks(RunCore& run, FunctionRef<bool(std::string const& name)> add_kept, Archive& archive);
FULGURITE_EXTERN(void fold_callbacks(RunCore&, FunctionRef<bool(std::string const&)>, StateSaver&));
FULGURITE_EXTERN(void fold_callbacks(RunCore&, FunctionRef<bool(std::string const&)>, StateLoader&));

/// The state that belongs to the weights: the position of the run, and the model's own state.
template <class R, class Archive>
void fold_weights_state(State<R>& run, Archive& archive) {
  archive.child("progress", run.progress);
  if constexpr (Stateful<typename R::Model, Archive>)
    if (!add_before_validation(run, "model", archive)) archive.child("model", *run.parts.model);
}

template <class R, class Archive>
void fold_policies(State<R>& run, Archive& archive) {
  if constexpr (Stateful<typename R::Strategy, Archive>) archive.child("strategy", run.parts.strategy);
  if constexpr (Stateful<typename R::Precision, Archive>) archive.child("precision", run.parts.precision);
  if constexpr (Stateful<typename R::Optimization, Archive>) archive.child("optimization", run.optimization);
}
/// The parts besides the model that exist before the optimizers do.
template <class R, class Archive>
void fold_parts(State<R>& run, Archive& archive) {
  fold_policies(run, archive);
  archive.child("callbacks", [&](auto& inner) {
    auto const add_kept = [&](std::string const& name) { return add_callback_before_validation(run, name, inner); };
    fold_callbacks(run, add_kept, inner);
  });
}

template <class Archive, class... Os>
consteval bool all_remember(std::tuple<Os...> const*) {
  return (Stateful<Os, Archive> && ...);
}
/// True if the state of each optimizer can be saved.
template <class R, class Archive>
inline constexpr bool optimizers_remember =
    all_remember<Archive>(static_cast<decltype(Optimizers<R>::optimizers) const*>(nullptr));

template <class Archive, class... Os>
consteval bool all_resume(std::tuple<Os...> const*) {
  return ((Stateful<Os, Archive> || DeclaredStateless<Os>) && ...);
}
/// True if a fit can resume with each optimizer: its state can be saved, or it declares that it needs none.
template <class R, class Archive>
inline constexpr bool optimizers_resume =
    all_resume<Archive>(static_cast<decltype(Optimizers<R>::optimizers) const*>(nullptr));

/// True if a file of such a run can hold the state of its policies and optimizers.
template <class R, class Archive>
inline constexpr bool parts_remember = Remembers<typename R::Strategy> && Remembers<typename R::Precision> &&
                                       Remembers<typename R::Optimization> && optimizers_resume<R, Archive>;

/// The name of an optimizer in files: its class, with the namespace if the optimizer gives it by `kind()`, since
/// classes of the same name may have different states. A user's optimizer need not have a name.
template <class O>
std::string optimizer_kind() {
  if constexpr (requires { O::kind(); }) return std::string(O::kind());
  else if constexpr (requires { O::name(); }) return std::string(O::name());
  else return std::string(type_name<O>());
}

/// The name of a part in files: its number or key, and its kind.
std::string with_kind(std::size_t number, std::string_view kind);
inline std::string with_kind(std::string key, std::string_view kind) { return (key += ' ') += kind; }

/// The optimizers that have a state, numbered, each under its name.
template <class Archive, class... Os>
void fold_each_optimizer(std::tuple<Os...>& optimizers, Archive& archive) {
  std::size_t number = 0;
  auto const fold = [&]<class O>(O& optimizer) {
    if constexpr (Stateful<O, Archive>) archive.child(with_kind(number++, optimizer_kind<O>()), optimizer);
  };
  each_of(optimizers, fold);
}
/// What a run has after configure_optimizers: optimizers, schedulers, and the scaler of losses.
template <class R, class Archive>
void fold_optimizers(State<R>& run, Archive& archive) {
  auto& made = *run.parts.optimizers;
  archive.child("optimizers", [&](auto& inner) { fold_each_optimizer(made.optimizers, inner); });
  made.state(archive);
  if constexpr (R::Precision::scales_loss) archive.child("scaler", *run.parts.scaler);
}

// What hooks have frozen, or switched to eval mode, and what they have made trainable.

/// True if parameters of the model can be frozen, and its modules switched to eval mode.
template <class R>
inline constexpr bool has_switches = requires(typename R::Model& model) { R::Backend::switches(model); };

/// True in an evaluation of the run's model, which has put it into eval mode.
template <class R>
bool is_evaluated(State<R> const& run) {
  return run.parts.evaluated.model != nullptr && run.parts.evaluated.model == run.parts.model;
}
/// What is switched off in the model, and still is when an evaluation under way has ended.
template <class R>
Switches switched_off(State<R> const& run) {
  Switches off;
  if constexpr (has_switches<R>) off = R::Backend::switches(*run.parts.model);
  if (is_evaluated(run)) off.modules = run.parts.evaluated.modules;
  return off;
}
/// Forgets what was switched in another model than the run's, and its first weight.
template <class R>
void forget_other_model(State<R>& run) {
  if constexpr (has_switches<R>) {
    auto& parts = run.parts;
    auto const weights = R::Backend::weights(*parts.model);
    auto const first = weights.empty() ? std::nullopt : std::optional(weights.front());
    auto const& from = parts.switches_from;
    bool const same = first && from ? R::Backend::same(*first, *from) : !first && !from;
    // A hook, too, may give the model other weights.
    if (parts.switches_of != parts.model || (parts.program_switches && !same)) parts.switches = {};
    parts.switches_of = parts.model;
    parts.switches_from = first;
  }
}
/// Records who made the changes since the last call: the program, or hooks.
template <class R>
void note_switches(State<R>& run, bool by_program) {
  if constexpr (has_switches<R>) {
    forget_other_model(run);
    auto& parts = run.parts;
    if (by_program) parts.switches.program_ends(switched_off(run));
    else parts.switches.hooks_end(switched_off(run));
  }
}
/// True while what hooks switch is the program's choice.
template <class R>
bool switches_for_program(State<R> const& run) {
  return run.parts.program_switches && !run.facts.sanity_checking;
}
/// What hooks have switched, for a file that is written now.
template <class R>
Switched switched_by_hooks(State<R>& run) {
  if (switches_for_program(run)) note_switches(run, true);
  auto const* const before = before_repeated_validation(run);
  return run.parts.switches.changed(before ? before->switches : switched_off(run));
}

/// Inside of an evaluation it sets modules when that ends.
template <class R>
void set_switches(State<R>& run, Switches off) {
  auto& model = *run.parts.model;
  if (is_evaluated(run)) run.parts.evaluated.modules = std::exchange(off.modules, R::Backend::eval_modules(model));
  R::Backend::set_switches(model, off);
}
/// Sets the switches that the file names, and the others as the program has chosen.
template <class R>
void resume_switches(State<R>& run, Switched const& file) {
  if constexpr (has_switches<R>) {
    set_switches(run, run.parts.switches.resumed(file));
    note_switches(run, false);  // without names that the model does not have
  }
}
/// Sets everything as it was when the history was kept.
template <class R>
void restore_switches(State<R>& run, SwitchHistory const& kept) {
  if constexpr (has_switches<R>) {
    set_switches(run, kept.last());
    note_switches(run, true);  // so that it is this model's
    run.parts.switches = kept;
  }
}
/// Files have no entry of nothing.
template <class Archive>
void fold_switched(char const* name, Switched& switched, Archive& archive) {
  if (Archive::loading ? !lacks(archive, name) : !switched.nothing()) archive.child(name, switched);
}
template <class R, class Archive>
void fold_switches(State<R>& run, Archive& archive) {
  if constexpr (has_switches<R>) {
    Switched changed, made_with;
    if constexpr (!Archive::loading) changed = switched_by_hooks(run), made_with = run.parts.made_with;
    fold_switched("switches", changed, archive);
    fold_switched("switches_when_made", made_with, archive);  // see Resumption::load_model
    if constexpr (Archive::loading)
      commit(archive, [&run, changed] {
        if (run.parts.program_switches) run.parts.switches.choose_as(changed);  // on_train_start is not called
        resume_switches(run, changed);
      });
  }
}

// The parts of a run by name, for its files: if a file does not fit a program, the Error names the parts that differ.

/// The loaders of a fit, such as "train TensorLoader" and "validation 0 TensorLoader", by the names of their types.
std::vector<std::string> loader_names(std::string_view train, std::initializer_list<std::string_view> validation);
template <class Source>
std::vector<std::string> loader_names() {
  std::string_view train;
  if constexpr (Source::trains) train = type_name<std::remove_cvref_t<decltype(std::declval<Source&>().train())>>();
  if constexpr (Source::template evaluates<hook::val_dataloader>) {
    auto const with = [&]<class... Ls>(std::type_identity<std::tuple<Ls...>>) {
      return loader_names(train, {type_name<std::remove_cvref_t<Ls>>()...});
    };
    return with(std::type_identity<decltype(std::declval<Source&>().template evaluation<hook::val_dataloader>())>());
  } else {
    return loader_names(train, {});
  }
}

/// The names of the optimizers in the state; the optimizers need not exist yet.
template <class... Os>
std::vector<std::string> optimizer_names(std::tuple<Os...> const*) {
  std::vector<std::string> names;
  (names.push_back(with_kind(names.size(), optimizer_kind<Os>())), ...);
  return names;
}

/// The state key of a participant, as a list.
std::vector<std::string> only(std::string key);
template <class C>
std::vector<std::string> keys(C const& participant) {
  return only(state_key_of(participant));
}

/// A strategy that only runs the steps of another strategy faster, with the same bits, has the other's name: their
/// files are the same.
template <class S>
std::vector<std::string> strategy_names(S const& strategy) {
  if constexpr (requires { typename S::AsWritten; }) {
    return keys(static_cast<typename S::AsWritten const&>(strategy));
  } else {
    return keys(strategy);
  }
}

void save_names_of_callbacks_and_loaders(RunCore const& run, StateSaver& archive);

/// Saves the list of parts. Loading skips it: an unfit part is found when its state is loaded.
template <class R, class Archive>
void fold_assembly(State<R>& run, Archive& archive) {
  if constexpr (Archive::loading) {
    if (!lacks(archive, "assembly")) archive.child("assembly", [](auto& inner) { leave_out_others(inner); });
  } else {
    archive.child("assembly", [&](auto& inner) {
      inner("strategy", strategy_names(run.parts.strategy));
      inner("precision", keys(run.parts.precision));
      inner("optimization", keys(run.optimization));
      inner("optimizers", optimizer_names(static_cast<decltype(Optimizers<R>::optimizers) const*>(nullptr)));
      inner("schedules", Optimizers<R>::schedule_names());
      save_names_of_callbacks_and_loaders(run, inner);
    });
  }
}

// The part that only a resuming fit needs: the exact position, and what was open there.

// A batch that is cut along time and was left between two of its slices: the number of slices that were stepped on, and
// the model's state after them.

/// True if a file can hold the Hidden: tensors, numbers, types with `state(archive)`, and tuples, pairs, arrays and
/// vectors of those.
template <class Backend, class T>
inline constexpr bool hidden_is_kept =
    Backend::template is_value<T> || Stateful<T, ArchiveProbe> || std::is_arithmetic_v<T>;
template <class Backend, class T>
inline constexpr bool hidden_is_kept<Backend, std::vector<T>> = hidden_is_kept<Backend, T>;
template <class Backend, class T>
  requires(!Backend::template is_value<T> && !Stateful<T, ArchiveProbe> && requires { std::tuple_size<T>::value; })
inline constexpr bool hidden_is_kept<Backend, T> = []<std::size_t... I>(std::index_sequence<I...>) {
  return (hidden_is_kept<Backend, std::tuple_element_t<I, T>> && ...);
}(std::make_index_sequence<std::tuple_size_v<T>>());

/// Saves or loads one part of a Hidden. A loaded tensor gets the device of `beside`.
template <class Backend, class Archive, class T>
void fold_hidden(Archive& archive, std::string const& name, T& part, typename Backend::Value const& beside) {
  if constexpr (Backend::template is_value<T>) {
    if constexpr (Archive::loading) {
      if (lacks(archive, name)) return;  // it was an undefined tensor
      auto saved = Backend::saved(beside);
      archive.tensor(name, saved);
      part = Backend::made_from(saved, beside);
    } else if (part.defined()) {
      archive.tensor(name, Backend::saved(part));
    }
  } else if constexpr (Stateful<T, ArchiveProbe>) {
    archive.child(name, part);
  } else if constexpr (std::is_arithmetic_v<T>) {
    archive(name, part);
  } else {
    archive.child(name, [&](auto& inner) {
      auto one = [&, at = 0](auto& element) mutable {
        fold_hidden<Backend>(inner, std::to_string(at++), element, beside);
      };
      if constexpr (requires { std::tuple_size<T>::value; }) {
        std::apply([&](auto&... all) { (one(all), ...); }, part);
      } else {
        // Marks the elements that are defined tensors. The list's length is that of its text; a separate count could be
        // any number in a file from an untrusted source.
        std::vector<bool> there;
        for (auto const& element : part) {
          if constexpr (requires { element.defined(); }) there.push_back(element.defined());
          else there.push_back(true);
        }
        inner("there", there);
        part.resize(there.size());
        for (auto& element : part) one(element);
      }
    });
  }
}

/// Writes nothing if no batch is open.
template <class R, class Archive>
void fold_slices(State<R>& run, Archive& archive) {
  if constexpr (Recurrent<typename R::Model>) {
    using Backend = typename R::Backend;
    auto& carried = run.carried;
    if constexpr (Archive::loading) {
      carried.slices = 0;
      if (lacks(archive, "slices")) return;
      carried.hidden.reset();
    } else if (carried.slices == 0) {
      return;
    }
    if constexpr (hidden_is_kept<Backend, typename R::Model::Hidden>) {
      auto const weights = Backend::weights(*run.parts.model);
      if (weights.empty()) return;
      archive.child("slices", [&](auto& inner) {
        inner("stepped", carried.slices);
        bool given = carried.hidden.has_value();
        inner("given", given);
        if (!given) return;
        if (!carried.hidden) carried.hidden.emplace();
        fold_hidden<Backend>(inner, "hidden", *carried.hidden, weights.front());
      });
    } else {
      run.warn(
          "fulgurite.resume.hidden",
          "the run was left between two slices of a batch, and a file cannot hold the model's Hidden: the batch is "
          "done again with all of its slices; give Hidden a state(archive)");
    }
  }
}

/// The gradients of parameters. `received`: which parameters have a gradient. Only the optimizer knows that if its
/// gradients always exist, as slices of one buffer; empty: those that exist.
template <class Backend, class Parameters, class Archive>
void fold_gradients(Parameters const& parameters, std::vector<bool>& received, Archive& archive) {
  if (received.empty())
    for (auto const& parameter : parameters) received.push_back(Backend::gradient(parameter).defined());
  archive("received", received);
  long at = 0;
  for (auto const& parameter : parameters) {
    auto const name = std::to_string(at++);
    if constexpr (Archive::loading) {
      if (lacks(archive, name)) continue;
      auto gradient = Backend::clone(parameter);
      auto saved = Backend::saved(gradient);
      archive.tensor(name, saved);
      Backend::restore(gradient, saved);
      Backend::set_gradient(parameter, gradient);
    } else if (auto const gradient = Backend::gradient(parameter); gradient.defined()) {
      archive.tensor(name, Backend::saved(gradient));
    }
  }
}
/// The gradients of one optimizer's parameters.
template <class Backend, class Optimizer, class Archive>
void fold_gradients_of(Optimizer& optimizer, Archive& archive) {
  std::vector<bool> received;
  if constexpr (requires { optimizer.received(); }) received = optimizer.received();
  fold_gradients<Backend>(optimizer.parameters(), received, archive);
  if constexpr (Archive::loading && requires { optimizer.set_received(received); }) optimizer.set_received(received);
}

/// The loss of the last batch of an open window. A closure returns it if the window is stepped before it is full.
template <class R, class Archive>
void fold_loss(State<R>& run, Archive& archive) {
  if constexpr (R::automatic) {
    if constexpr (closure_is_shown<R>) {
      using Backend = typename R::Backend;
      if (!run.point.accumulating) return;
      if constexpr (Archive::loading) {
        auto const& parameters = std::get<0>(run.parts.optimizers->optimizers).parameters();
        if (lacks(archive, "loss") || parameters.empty()) return;
        auto saved = Backend::saved(parameters.front());
        archive.tensor("loss", saved);
        run.carried.loss = Backend::made_from(saved, parameters.front());
      } else if (run.carried.loss.defined()) {
        archive.tensor("loss", Backend::saved(run.carried.loss));
      }
    }
  }
}

/// The values of the last finished epoch and of the last evaluation, by the names of metrics and loaders.
template <class Archive>
void fold_results(RunCore& run, Archive& archive);
FULGURITE_EXTERN(void fold_results(RunCore&, StateSaver&));
FULGURITE_EXTERN(void fold_results(RunCore&, StateLoader&));

/// The length of the next windows, which hooks may change.
template <class R, class Archive>
void fold_window_length(State<R>& run, Archive& archive) {
  if constexpr (R::automatic)
    archive.option("accumulate_grad_batches", run.optimization.accumulate_grad_batches, run.asked.window_length);
}
template <class O>
Automatic const* automatic_of([[maybe_unused]] O const& optimization) {
  if constexpr (std::is_same_v<O, Automatic>) return &optimization;
  else return nullptr;
}

/// The limits that end a fit.
struct Limits {
  std::optional<int> epochs;
  std::optional<long> steps;
  std::optional<double> seconds;

  explicit Limits(TrainerOptions const& options);
  void state(auto& archive);
  bool operator==(Limits const&) const = default;
};

/// The number of ranks over which an epoch's batches are distributed; the stages of a split model all have the same
/// batches.
template <class R>
long shares_of_data(State<R> const& run) {
  if constexpr (shares<R> && !splits_model<R>) return run.parts.strategy.world();
  else return 1;
}

/// Requests and times of the run. Other entries follow in the file, so loaded values take effect only in `restore`,
/// after all of them were read.
class RunPosition {
 public:
  /// Values that the run's core does not have.
  struct Beside {
    ValidationBegan const* repeated;  ///< the validation that a resumed fit repeats; null: none
    bool has_before_cut;
    long shares_of_data;
    Automatic const* automatic;  ///< null: manual optimization
    long& finite_read_at;
    int& scaled_out;
  };
  RunPosition(RunCore& run, Beside const& beside);
  void state(auto& archive);
  void restore();

 private:
  void fold_optimization(auto& archive);
  void fold_stop(auto& archive);

  RunCore& run_;
  Beside beside_;
  TrainerOptions::Clock::time_point now_;
  double elapsed_;
  std::optional<double> validated_{};
  long in_window_;
};

template <class R, class Archive>
void fold_run(State<R>& run, Archive& archive) {
  RunPosition position(run, {.repeated = before_repeated_validation(run),
                             .has_before_cut = run.before_cut.has_value(),
                             .shares_of_data = shares_of_data(run),
                             .automatic = automatic_of(run.optimization),
                             .finite_read_at = run.watch.finite.read_at,
                             .scaled_out = run.watch.finite.scaled_out});
  position.state(archive);
  archive.child("epoch_so_far", run.measured.train_board).child("epoch_cut_short", run.measured.cut_short);
  if (!add_before_validation(run, "results", archive))
    archive.child("results", [&](auto& inner) { fold_results(run, inner); });
  // In manual optimization only the user knows whether gradients are kept for a later step.
  bool const open = run.point.accumulating || !R::automatic;
  if (open && !lacks(archive, "gradients"))
    archive.child("gradients", [&](auto& inner) {
      auto one = [&, i = 0](auto& optimizer) mutable {
        inner.child(std::to_string(i++),
                    [&](auto& innermost) { fold_gradients_of<typename R::Backend>(optimizer, innermost); });
      };
      each_of(run.parts.optimizers->optimizers, one);
    });
  fold_loss(run, archive);
  fold_slices(run, archive);
  if constexpr (Archive::loading) position.restore();
}

// An epoch that a limit or a stop ended before its data: the state of the run before hooks were notified of that end.
// Files contain it, so that a fit that resumes inside the epoch continues as if the epoch had not ended.

/// True if a callback of the pack keeps files, or changes weights at an epoch's end.
FULGURITE_OF_ARGUMENTS(any_keeps_files, Pack, judge::keeps_checkpoints<Ts>() || ...);
FULGURITE_OF_ARGUMENTS(any_moves_weights, Pack, judge::moves_weights<Ts>() || ...);

/// True if files also hold the weights before the cut. A process that has only a part of the weights cannot save them
/// here.
template <class R, class Pack>
inline constexpr bool keeps_moved_weights =
    any_moves_weights<Pack> && !splits_model<R> && !judge::shards_parameters<typename R::Strategy>();

template <class R, class Archive>
void fold_weights(State<R>& run, Archive& archive) {
  using Backend = typename R::Backend;
  auto const weights = Backend::weights(*run.parts.model);
  std::vector<decltype(Backend::saved(weights.front()))> saved;
  for (auto const& weight : weights) saved.push_back(Backend::saved(weight));
  archive("weights", saved);
  if constexpr (Archive::loading) {
    auto const count = std::min(weights.size(), saved.size());
    for (std::size_t i = 0; i != count; ++i) Backend::require_fit(weights[i], saved[i]);
    Backend::restore(std::span(weights).first(count), std::span(std::as_const(saved)).first(count));
  }
}

/// State that hooks at an epoch's end can change. Weights and moments are included only if a callback declares that it
/// changes weights. Callbacks that keep files are not included: their files are on the disk, and their rankings refer
/// to these.
template <class R, class Pack, class Archive>
void fold_before_cut(State<R>& run, Archive& archive) {
  archive.child("before_cut", [&](auto& inner) {
    if constexpr (Stateful<typename R::Model, Archive> && !splits_model<R>) inner.child("model", *run.parts.model);
    inner.child("callbacks", [&](auto& all) {
      each_remembering(run.callbacks, [&](AnyCallback const& callback, std::string const& name) {
        if (!callback.table->keeps_checkpoints && !lacks(all, name)) all.child(name, callback);
      });
      leave_out_others(all);
    });
    run.parts.optimizers->state(inner);
    inner.child("results", [&](auto& all) { fold_results(run, all); });
    fold_window_length(run, inner);
    inner("statistics_pass", run.due.statistics_pass);
    // The resuming program may have other callbacks than the one that wrote the file.
    auto const is_there = [&](char const* name) { return !Archive::loading || !lacks(inner, name); };
    if (!any_keeps_files<Pack> && is_there("outcome")) inner("outcome", run.made.outcome);
    if constexpr (keeps_moved_weights<R, Pack>)
      if (is_there("weights")) fold_weights(run, inner);
  });
}

/// Saves the state when an epoch is cut short, before hooks are notified of its end.
template <class R, class Pack>
void keep_before_cut(State<R>& run, Pack const&) {
  auto stop = run.due.stop;
  stop.asked = stop.asked || stop.waits;
  run.due.stop_before_cut = stop.lasting();
  if constexpr (keeps_in_memory<typename R::Backend>) {
    run.carried.cut_random.emplace(R::Backend::rng_state());
    run.carried.cut_switches = switched_by_hooks(run);
    run.before_cut.emplace().save([&](auto& archive) { fold_before_cut<R, Pack>(run, archive); });
  }
}

/// Drops the saved state when training continues, in the next epoch or inside the cut one.
template <class R>
void forget_cut(State<R>& run) {
  run.before_cut.reset();
  run.carried.cut_random.reset();
  run.carried.cut_switches = {};
}

/// The random state and what hooks had switched, which each rank has for itself.
template <class R, class Archive>
void fold_own_cut(State<R>& run, Archive& archive) {
  auto& random = run.carried.cut_random;
  auto& switches = run.carried.cut_switches;
  if constexpr (Archive::loading) {
    random.reset();
    if (!lacks(archive, "cut_random")) random.emplace(R::Backend::rng_state());
    switches = {};
  }
  fold_switched("cut_switches", switches, archive);
  if (random) archive.child("cut_random", *random);
}

/// The part of a file that holds the state before the cut.
template <class R, class Archive>
void fold_kept_cut(State<R>& run, Archive& archive) {
  fold_own_cut(run, archive);
  if constexpr (!Archive::loading) {
    if (run.before_cut) run.before_cut->add_to(archive);
  } else {
    run.before_cut.reset();
    if (!lacks(archive, "before_cut")) run.before_cut.emplace().take("before_cut", archive);
  }
}

/// For a run that is reset to a point inside such an epoch: undoes what hooks did at the epoch's end. The training
/// weights already are those of that point.
template <class R, class Pack>
void go_back_before_cut(State<R>& run, Pack const&) {
  if (!run.before_cut) return;
  run.before_cut->load([&](auto& archive) { fold_before_cut<R, Pack>(run, archive); });
  if (run.carried.cut_random) run.carried.cut_random->restore();
  resume_switches(run, run.carried.cut_switches);
  forget_cut(run);
}

}  // namespace fulgurite::loop

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/loop/run_state.ipp>
#endif
