#pragma once
// What a trainer does between its runs: other options, files and snapshots of all that it owns, searches, a look at its
// callbacks.

#include <filesystem>
#include <type_traits>
#include <utility>

#include <fulgurite/diagnose/checked_options.hpp>
#include <fulgurite/diagnose/judged_calls.hpp>
#include <fulgurite/diagnose/member_sentences.hpp>
#include <fulgurite/diagnose/state_rules.hpp>
#include <fulgurite/loop/owned_run.hpp>
#include <fulgurite/loop/save_checkpoint.hpp>
#include <fulgurite/loop/search_alone.hpp>
#include <fulgurite/loop/snapshot.hpp>

namespace fulgurite::loop {

/// `R` is the key of the trainer's runs, `Cs` are its callbacks.
template <class R, class... Cs>
class BetweenRuns : public OwnedRun<R, Pack<Cs...>> {
  using Owned = OwnedRun<R, Pack<Cs...>>;
  using Calls = judge::Calls<R, Cs...>;

 public:
  /// All of the run, now; between fits, or from a hook through ctx.request_checkpoint. Does not compile where a part of
  /// the trainer would be forgotten.
  void save_checkpoint(std::filesystem::path const& path) {
    using Verdict = decltype(judge::remembered_in_files<R>());
    static_cast<void>(Verdict::Rules::template judge<true, typename Verdict::Whom>());
    if constexpr (Verdict::ok) loop::save_checkpoint(state_, pack_, none_, path);
  }

  /// What snapshot(trainer) does.
  Snapshot<R> snapshot() { return take_snapshot(state_, pack_, none_); }
  /// What restore(trainer, snapshot) does.
  template <class Other>
  void restore(Snapshot<Other> const& from) {
    if constexpr (judge::of_this_run<R, Snapshot<Other>>()) restore_snapshot(state_, pack_, none_, from);
  }

  /// What tune::rehearse does between fits: `what(rehearser)` is called when the optimizers are made.
  template <class Model, class Data, class Source = SourceOfTwo<std::remove_reference_t<Data>, NoModule>,
            class Verdict =
                typename judge::VerdictOnCall<typename Calls::template Fit<Model, Source, true, false, Data>>::type>
  void search(Model&& model, Data&& data, RunSearch<R> const& what) {
    static_cast<void>(Verdict::Rules::template judge<true, typename Verdict::Whom>());
    if constexpr (!Verdict::ok) return;
    else if constexpr (LoaderLike<std::remove_reference_t<Data>>)
      search_alone(state_, pack_, model, Source{data, none_}, what);
    else search_alone(state_, pack_, model, Source(data), what);
  }

  /// The same for batches of an evaluation. `Kind`: Validation, Testing or Prediction.
  template <class Kind, class Model, class Data,
            class Verdict = typename judge::VerdictOnCall<typename Calls::template Evaluation<Model, Kind, Data>>::type>
  void search_evaluation(Model&& model, Data&& data, RunSearch<R> const& what) {
    static_cast<void>(Verdict::Rules::template judge<true, typename Verdict::Whom>());
    if constexpr (Verdict::ok) {
      using Source = decltype(source_of<true>(data, none_));
      if constexpr (std::is_same_v<Kind, Prediction>)
        loop::search_evaluation<Kind, judge::PredictedBy<R, Source>>(state_, pack_, model, source_of<true>(data, none_),
                                                                     what);
      else loop::search_evaluation<Kind, NoModule>(state_, pack_, model, source_of<true>(data, none_), what);
    }
  }

  /// Other options for the runs to come, between runs; all else stays as it is. Wrong ones leave those before:
  ///   auto options = trainer.given_options();
  ///   options.max_epochs = 20;
  ///   trainer.set_options(options);
  ///   trainer.fit(net, data);  // the epochs that are missing
  void set_options(TrainerOptions options) {
    refuse_open(state_, "set_options");
    check(options);
    state_.asked.options = effective(options);
    state_.asked.given = std::move(options);
  }

  /// The same for accumulation, clipping, slices: `trainer.set_optimization({.clip = ClipNorm{1}})`.
  void set_optimization(typename R::Optimization optimization) {
    refuse_open(state_, "set_optimization");
    if constexpr (R::automatic) check(optimization);
    state_.asked.optimization = std::move(optimization);
  }

  /// The callback of type T that make_trainer was given, as it is now: `trainer.callback<Timer>().elapsed()`. Does not
  /// compile where there is none.
  template <class T>
  T& callback() {
    constexpr bool found = (std::is_same_v<T, Cs> || ...);
    static_assert(found, FULGURITE_SENTENCE_TRAINER_CALLBACK);
    if constexpr (found) return pack_.slots.template get<T>();
    else return refusal::nothing<T>();
  }
  /// The same by its class template: `trainer.callback<ModelCheckpoint>()`, where there is one such.
  template <template <class...> class T>
  auto& callback() {
    using Found = refusal::Only<T, Cs...>;
    constexpr bool found = Found::found;
    static_assert(found, FULGURITE_SENTENCE_TRAINER_CALLBACK_OF_TEMPLATE);
    if constexpr (found) return pack_.slots.template get<typename Found::type>();
    else return refusal::nothing<typename Found::type>();
  }

 protected:
  BetweenRuns(TrainerOptions options, typename R::Strategy strategy, typename R::Precision precision,
              typename R::Optimization optimization, Pack<Cs...> pack)
      : Owned(checked(std::move(options)), std::move(strategy), std::move(precision), std::move(optimization),
              std::move(pack)) {
    if constexpr (R::automatic) check(state_.asked.optimization);
  }

  using Owned::none_;
  using Owned::pack_;
  using Owned::state_;
};

}  // namespace fulgurite::loop
