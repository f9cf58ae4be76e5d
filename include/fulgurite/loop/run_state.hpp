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

/// From now on nothing is written, until the run is restored.
void begin_trying_out(RunCore& run);
/// At the end of a run: warns of searches that were requested too late to run.
void warn_of_unanswered(RunCore& run);
/// Drops the searches of this run, so that no other run performs them.
void forget_searches(RunCore& run);

// The state at the start of a validation inside fit. A file that is written during the validation, or after it failed,
// holds this state: a fit that resumes from the file repeats the whole validation.

/// The state before the validation that a fit repeats when it resumes from a file written now; nullptr if it repeats
/// none.
BeforeValidation const* before_repeated_validation(RunCore const& run);

/// Saves one of the parts from before the validation. Returns false if the part was not kept or no validation is
/// repeated: then save the current state.
bool add_before_validation(RunCore const& run, std::string_view part, StateSaver& archive);
inline bool add_before_validation(RunCore const&, std::string_view, StateLoader&) { return false; }

/// Saves one of the parts that are kept of the last fit's data. Returns false if there is none of that name.
bool add_left(RunCore const& run, std::string_view part, StateSaver& archive);
inline bool add_left(RunCore const&, std::string_view, StateLoader&) { return false; }

/// The random state with which a resumed fit continues.
template <class R, class Archive>
void fold_random(State<R>& run, Archive& archive) {
  if (add_before_validation(run, "random", archive)) return;
  auto random = R::Backend::rng_state();
  archive.child("random", random);
  if constexpr (Archive::loading) random.restore();
}

/// The callbacks, each under its key, so that files stay readable when a program gains a callback.
template <class Archive>
void fold_callbacks(RunCore& run, Archive& archive);
FULGURITE_FOLD(EXTERN, fold_callbacks, RunCore&);

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
  fold_callbacks(run, archive);
}

FULGURITE_OF_ARGUMENTS(all_have_state, std::tuple, Stateful<Ts, StateSaver>&&...);
/// True if the state of each optimizer can be saved.
template <class R>
inline constexpr bool optimizers_remember = all_have_state<decltype(Optimizers<R>::optimizers)>;

FULGURITE_OF_ARGUMENTS(all_resume, std::tuple, (Stateful<Ts, StateSaver> || DeclaredStateless<Ts>) && ...);
/// True if a fit can resume with each optimizer: its state can be saved, or it declares that it needs none.
template <class R>
inline constexpr bool optimizers_resume = all_resume<decltype(Optimizers<R>::optimizers)>;

/// True if a file of such a run can hold the state of its policies and optimizers.
template <class R>
inline constexpr bool parts_remember = Remembers<typename R::Strategy> && Remembers<typename R::Precision> &&
                                       Remembers<typename R::Optimization> && optimizers_resume<R>;

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

/// Forgets what was switched in another model than the run's, or before it got other weights.
void forget_other_model(RunCore& run);
/// Records who made the changes since the last call: the program, or hooks.
void note_switches(RunCore& run, bool by_program);
/// True while what hooks switch is the program's choice.
bool switches_for_program(RunCore const& run);
/// What hooks have switched, for a file that is written now.
Switched switched_by_hooks(RunCore& run);
/// Sets the switches that the file names, and the others as the program has chosen.
void resume_switches(RunCore& run, Switched const& file);
/// Sets everything as it was when the history was kept.
void restore_switches(RunCore& run, SwitchHistory const& kept);

/// Files have no entry of nothing.
template <class Archive>
void fold_switched(char const* name, Switched& switched, Archive& archive);
FULGURITE_FOLD(EXTERN, fold_switched, char const*, Switched&);
template <class Archive>
void fold_switches(RunCore& run, Archive& archive);
FULGURITE_FOLD(EXTERN, fold_switches, RunCore&);

/// For its lifetime, files hold which modules were in eval mode before an evaluation. If a hook restores a snapshot,
/// the destructor sets the modules' modes to the snapshot's.
class KeepsModes : Pinned {
 public:
  explicit KeepsModes(RunCore& run);
  ~KeepsModes();

 private:
  RunCore& run_;
  ModelSwitches::Evaluated outside_;
  std::vector<std::string> modes_{};
};

// The parts of a run by name, for its files: if a file does not fit a program, the Error names the parts that differ.

using Names = std::initializer_list<std::string_view>;

/// The loaders of a fit, such as "train TensorLoader" and "validation 0 TensorLoader", by the names of their types.
std::vector<std::string> loader_names(Names train, Names validation);
template <class Source>
std::vector<std::string> loader_names() {
  return []<class... Ts, class... Vs>(std::tuple<Ts...> const*, std::tuple<Vs...> const*) {
    return loader_names({type_name<std::remove_cvref_t<Ts>>()...}, {type_name<std::remove_cvref_t<Vs>>()...});
  }(static_cast<TrainingTypes<Source> const*>(nullptr), static_cast<ValidationTypes<Source> const*>(nullptr));
}

/// The name of a strategy. One that only runs the steps of another strategy faster, with the same bits, has the other's
/// name: their files are the same.
template <class S>
auto strategy_name(S const& strategy) {
  if constexpr (requires { typename S::AsWritten; })
    return state_key_of(static_cast<typename S::AsWritten const&>(strategy));
  else return state_key_of(strategy);
}

/// The parts of a run by name: strategy, precision and optimization, then its optimizers, which need not exist yet.
void save_parts(RunCore const& run, Names policies, Names optimizers, std::vector<std::string> (*schedules)(),
                StateSaver& archive);

/// Saves the list of parts. Loading skips it: an unfit part is found when its state is loaded.
template <class R, class Archive>
void fold_assembly(State<R>& run, Archive& archive) {
  if constexpr (Archive::loading) {
    if (!lacks(archive, "assembly")) archive.child("assembly", [](auto& inner) { leave_out_others(inner); });
  } else {
    [&]<class... Os>(std::tuple<Os...> const*) {
      save_parts(run,
                 {strategy_name(run.parts.strategy), state_key_of(run.parts.precision), state_key_of(run.optimization)},
                 {optimizer_kind<Os>()...}, &Optimizers<R>::schedule_names, archive);
    }(static_cast<decltype(Optimizers<R>::optimizers) const*>(nullptr));
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
      run.slices = 0;
      if (lacks(archive, "slices")) return;
      carried.hidden.reset();
    } else if (run.slices == 0) {
      return;
    }
    if constexpr (hidden_is_kept<Backend, typename R::Model::Hidden>) {
      auto const weights = Backend::weights(*run.parts.model);
      if (weights.empty()) return;
      archive.child("slices", [&](auto& inner) {
        inner("stepped", run.slices);
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
template <class Backend, class Archive>
void fold_gradients(std::span<typename Backend::Value const> parameters, std::vector<bool>& received,
                    Archive& archive) {
  if (received.empty())
    for (auto const& parameter : parameters) received.push_back(Backend::gradient(parameter).defined());
  archive("received", received);
  long at = 0;
  for (auto const& parameter : parameters) {
    auto const name = std::to_string(at++);
    if constexpr (Archive::loading) {
      if (lacks(archive, name)) {
        Backend::set_gradient(parameter, {});
        continue;
      }
      auto gradient = Backend::clone(parameter);
      auto saved = Backend::saved(gradient), indices = saved;
      archive.tensor(name, saved);
      if (lacks(archive, name + " indices")) {
        Backend::restore(gradient, saved);
      } else {
        archive.tensor(name + " indices", indices);
        gradient =
            Backend::sparse({Backend::made_from(saved, parameter), Backend::made_from(indices, parameter)}, parameter);
      }
      Backend::set_gradient(parameter, gradient);
    } else if (auto const gradient = Backend::gradient(parameter); gradient.defined()) {
      auto const [values, indices] = Backend::parts(gradient);
      archive.tensor(name, Backend::saved(values));
      if (indices.defined()) archive.tensor(name + " indices", Backend::saved(indices));
    }
  }
}
/// The gradients of one optimizer's parameters.
template <class Backend, class Optimizer, class Archive>
void fold_gradients_of(Optimizer& optimizer, Archive& archive) {
  std::vector<bool> received;
  if constexpr (requires { optimizer.received(); }) received = optimizer.received();
  auto const& all = optimizer.parameters();
  using Value = typename Backend::Value;
  if constexpr (std::is_convertible_v<decltype(all), std::span<Value const>>)
    fold_gradients<Backend>(std::span<Value const>(all), received, archive);
  else fold_gradients<Backend>(std::vector<Value>(all.begin(), all.end()), received, archive);
  if constexpr (Archive::loading && requires { optimizer.set_received(received); }) optimizer.set_received(received);
}

/// The gradients of those optimizers whose bit is set in `saved`, or that the archive has.
template <class R, class Archive>
void fold_all_gradients(State<R>& run, std::uint64_t saved, Archive& archive) {
  if (lacks(archive, "gradients")) return;
  archive.child("gradients", [&](auto& inner) {
    auto one = [&, i = std::size_t{0}](auto& optimizer) mutable {
      auto const bit = i++;
      auto const name = std::to_string(bit);
      if (Archive::loading ? !lacks(inner, name) : (saved >> bit & 1) != 0)
        inner.child(name, [&](auto& innermost) { fold_gradients_of<typename R::Backend>(optimizer, innermost); });
    };
    each_of(run.parts.optimizers->optimizers, one);
  });
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
FULGURITE_FOLD(EXTERN, fold_results, RunCore&);

/// The length of the next windows, which hooks may change. `written`: that of the program; null: steps are manual.
template <class Archive>
void fold_window_length(RunCore& run, int const* written, Archive& archive);
FULGURITE_FOLD(EXTERN, fold_window_length, RunCore&, int const*);
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
  BeforeValidation const* repeated_;  ///< the validation that a resumed fit repeats; null: none
  TrainerOptions::Clock::time_point now_;
  double elapsed_;
  std::optional<double> validated_{};
  long in_window_;
};

template <class R, class Archive>
void fold_run(State<R>& run, Archive& archive) {
  RunPosition position(run, {.shares_of_data = shares_of_data(run),
                             .automatic = automatic_of(run.optimization),
                             .finite_read_at = run.watch.finite.read_at,
                             .scaled_out = run.watch.finite.scaled_out});
  position.state(archive);
  archive.child("epoch_so_far", run.measured.train_board).child("epoch_cut_short", run.measured.cut_short);
  if (!add_before_validation(run, "results", archive)) fold_results(run, archive);
  // In manual optimization only the user knows whether gradients are kept for a later step.
  if (run.point.accumulating || !R::automatic) fold_all_gradients(run, ~std::uint64_t{0}, archive);
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

// Callbacks that keep files are not included: their files are on the disk, and their rankings refer to these.
template <class Archive>
void fold_callbacks_before_cut(RunCore& run, Archive& archive);
FULGURITE_FOLD(EXTERN, fold_callbacks_before_cut, RunCore&);
template <class Archive>
void fold_core_before_cut(RunCore& run, int const* window_written, bool with_outcome, Archive& archive);
FULGURITE_FOLD(EXTERN, fold_core_before_cut, RunCore&, int const*, bool);

/// State that hooks at an epoch's end can change. Weights and moments are included only if a callback declares that it
/// changes weights.
template <class R, class Pack, class Archive>
void fold_before_cut(State<R>& run, Archive& archive) {
  archive.child("before_cut", [&](auto& inner) {
    if constexpr (Stateful<typename R::Model, Archive> && !splits_model<R>) inner.child("model", *run.parts.model);
    fold_callbacks_before_cut(run, inner);
    run.parts.optimizers->state(inner);
    int const* window_written = nullptr;
    if constexpr (R::automatic) window_written = &run.optimization.accumulate_grad_batches;
    fold_core_before_cut(run, window_written, !any_keeps_files<Pack>, inner);
    if constexpr (keeps_moved_weights<R, Pack>)
      if (!Archive::loading || !lacks(inner, "weights")) fold_weights(run, inner);
  });
}

/// The part of keep_before_cut that is the same for all programs.
void keep_stop_and_switches(RunCore& run);
/// Saves the state when an epoch is cut short, before hooks are notified of its end.
template <class R, class Pack>
void keep_before_cut(State<R>& run, Pack const&) {
  keep_stop_and_switches(run);
  auto random = R::Backend::rng_state();
  run.cut_random.emplace().save([&](auto& archive) { archive.child("cut_random", random); });
  run.before_cut.emplace().save([&](auto& archive) { fold_before_cut<R, Pack>(run, archive); });
}

/// Drops the saved state when training continues, in the next epoch or inside the cut one.
void forget_cut(RunCore& run);

/// The random state and what hooks had switched, which each rank has for itself.
template <class Archive>
void fold_own_cut(RunCore& run, Archive& archive);
FULGURITE_FOLD(EXTERN, fold_own_cut, RunCore&);
/// The part of a file that holds the state before the cut.
template <class Archive>
void fold_kept_cut(RunCore& run, Archive& archive);
FULGURITE_FOLD(EXTERN, fold_kept_cut, RunCore&);

/// For a run that is reset to a point inside such an epoch: undoes what hooks did at the epoch's end. The training
/// weights already are those of that point.
template <class R, class Pack>
void go_back_before_cut(State<R>& run, Pack const&) {
  if (!run.before_cut) return;
  auto random = R::Backend::rng_state();
  if (run.cut_random) run.cut_random->load([&](auto& archive) { archive.child("cut_random", random); });
  run.before_cut->load([&](auto& archive) { fold_before_cut<R, Pack>(run, archive); });
  if (run.cut_random) random.restore();
  resume_switches(run, run.cut_switches);
  forget_cut(run);
}

}  // namespace fulgurite::loop

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/loop/run_state.ipp>
#endif
