#pragma once
// The callbacks that make_trainer adds, unless the program names or excludes them.

#include <tuple>

#include <fulgurite/callback/model_checkpoint.hpp>
#include <fulgurite/callback/model_summary.hpp>
#include <fulgurite/callback/progress_bar.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/diagnose/trainer_rules.hpp>
#include <fulgurite/logger/csv_logger.hpp>

namespace fulgurite {

/// All default callbacks, for programs that exclude none.
std::tuple<ProgressBar, ModelSummary, CSVLogger, ModelCheckpoint<>, ResultsTable> default_callbacks();

/// ProgressBar{}, ModelSummary{}, CSVLogger{}, ModelCheckpoint{} (the last epoch's file) and ResultsTable{}: each
/// unless `Given` has a callback with the same purpose (another bar, another summary, any logger, any ModelCheckpoint)
/// or the tag that excludes it, such as NoLogger. Callbacks that only draw rows, such as Dashboard and LearningCurves,
/// are not loggers. Under barebones all of these are idle. NoDefaults excludes all of them.
template <class... Given>
struct DefaultCallbacks {
  static auto make() {
    using namespace judge;
    constexpr bool bar = is_left<NoProgressBar> && ((order_of<Given>() != Order::progress) && ...);
    constexpr bool summary = is_left<NoModelSummary> && ((order_of<Given>() != Order::summary) && ...);
    constexpr bool log = is_left<NoLogger> && (!is_logger<Given>() && ...);
    constexpr bool files = is_left<NoCheckpoints> && (!keeps_checkpoints<Given>() && ...);
    constexpr bool table = is_left<NoResultsTable> && times<ResultsTable, Given...> == 0;
    if constexpr (bar && summary && log && files && table) return default_callbacks();
    else
      return std::tuple_cat(one<bar, ProgressBar>(), one<summary, ModelSummary>(), one<log, CSVLogger>(),
                            one<files, ModelCheckpoint<>>(), one<table, ResultsTable>());
  }

 private:
  template <class Word>
  static constexpr bool is_left = judge::times<Word, Given...> == 0;
  template <bool Wanted, class T>
  static auto one() {
    if constexpr (Wanted) return std::tuple<T>(T{});
    else return std::tuple<>();
  }
};

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/defaults/callbacks.ipp>
#endif
