#pragma once
// The state of a run: everything it keeps between steps, in parts that say what they are.

#include <cstddef>
#include <string_view>

#include <fulgurite/core/known.hpp>
#include <fulgurite/hook/call.hpp>
#include <fulgurite/loop/asked.hpp>
#include <fulgurite/loop/carried.hpp>
#include <fulgurite/loop/due.hpp>
#include <fulgurite/loop/facts.hpp>
#include <fulgurite/loop/files_under_way.hpp>
#include <fulgurite/loop/loading.hpp>
#include <fulgurite/loop/made.hpp>
#include <fulgurite/loop/measured.hpp>
#include <fulgurite/loop/own_actions.hpp>
#include <fulgurite/loop/parts.hpp>
#include <fulgurite/loop/progress.hpp>
#include <fulgurite/loop/run_clock.hpp>
#include <fulgurite/loop/run_key.hpp>
#include <fulgurite/loop/safe_point.hpp>
#include <fulgurite/loop/searching.hpp>
#include <fulgurite/loop/shared_facts.hpp>
#include <fulgurite/loop/warnings.hpp>
#include <fulgurite/loop/watch.hpp>

namespace fulgurite::loop {

/// What is kept of data when their fit is over, where the Backend has files.
template <class Backend>
struct LeftBy {
  struct type {};
};
template <class Backend>
  requires requires { typename Backend::RunFile::Memory; }
struct LeftBy<Backend> {
  using type = typename Backend::RunFile::Memory;
};

/// What a validation begins with, as far as its hooks and steps can change it. Weights, buffers and optimizers are not
/// in it. See before_validation.hpp.
template <class R>
struct BeforeValidation {
  typename LeftBy<typename R::Backend>::type parts{};      ///< of the model, the data module, the loaders; results
  typename LeftBy<typename R::Backend>::type callbacks{};  ///< what callbacks save, each under its name
  decltype(R::Backend::rng_state()) random = R::Backend::rng_state();
  StopRequest stop{};        ///< Due's
  int validation_since = 0;  ///< Loading's
  long rows = 0;             ///< Due's
};

/// The trainer owns it; loops, contexts and steps borrow it.
template <class R>
struct State {
  using Key = R;
  using Board = typename Measured<R>::Board;
  static constexpr std::size_t metrics = R::Metrics::size;

  Asked<R> asked;       ///< what the user wants
  Parts<R> parts;       ///< what it was assembled from
  Progress progress{};  ///< where it is: what is counted, and saved
  SafePoint point{};    ///< where it is: between which pieces of work, while a checkpoint is written
  Facts facts{};        ///< where it is: the batch, the loader, the stage at hand
  Carried<R> carried{};
  Watch<R> watch{};
  Due due{};
  Measured<R> measured{};
  Loading loading{};
  Searching<R> searching{};
  RunClock clock{};
  [[no_unique_address]] SharedOf<R> shared{};
  Made made{};
  [[no_unique_address]] FilesUnderWay<typename R::Backend> under_way{};
  Warnings said{};
  OwnActions own_actions{};
  std::optional<typename LeftBy<typename R::Backend>::type> left{};  ///< by the data of the last fit
  /// What it was before its hooks heard of the end of an epoch that was cut short; see before_cut.hpp.
  std::optional<typename LeftBy<typename R::Backend>::type> before_cut{};
  std::optional<BeforeValidation<R>> before_validation{};  ///< of the one that is running or has failed

  /// A warning, said once for each identifier.
  void warn(std::string_view identifier, std::string_view sentence) {
    said.once(identifier, sentence, aloud(identifier));
  }
  /// The same, said once for each sentence.
  void warn_each(std::string_view identifier, std::string_view sentence) {
    said.each(identifier, sentence, aloud(identifier));
  }

  double training_seconds() const {
    double const now = clock.training_began ? Seconds(asked.options.now() - *clock.training_began).count() : 0.0;
    return clock.earlier + now;
  }

 private:
  bool aloud(std::string_view identifier) const {
    return parts.strategy.rank() == 0 && !asked.options.silence.has(identifier);
  }
};

/// Until the result ends, matrix products go the way that the strategy was told of, where it knows several.
template <class R>
auto products_scope(State<R>& run) {
  if constexpr (requires { run.parts.strategy.matmul_scope(); }) return run.parts.strategy.matmul_scope();
  else return 0;
}

}  // namespace fulgurite::loop
