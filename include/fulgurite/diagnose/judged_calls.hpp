#pragma once
// The verdict on each call of a trainer, from what the call was given.

#include <tuple>
#include <type_traits>
#include <utility>

#include <fulgurite/diagnose/call_rules.hpp>
#include <fulgurite/diagnose/call_stages.hpp>
#include <fulgurite/loop/given_data.hpp>
#include <fulgurite/loop/run_prediction.hpp>
#include <fulgurite/loop/snapshot.hpp>

namespace fulgurite::judge {

/// `Run` is the key of the trainer's runs, `Cs` are its callbacks. Where a call is declared, VerdictOnCall is asked
/// about one of these: g++ adds a line to every refusal for each alias that asks it for somebody else.
template <class Run, class... Cs>
struct Calls {
  using M = typename Run::Model;
  template <class Model, class Source, bool Waived, bool Mixed, class... Data>
  using Fit = Training<decltype(passed<M, Mixed, Model, Data...>()), Run, Source, Waived, Cs...>;
  template <class Model, class Kind, class Data>
  using Evaluation = Request<decltype(passed<M, false, Model, Data>()), Run, Kind, loop::SourceOf<Data, true>, Cs...>;
};

/// What predict_step makes of the batches of a source.
template <class Run, class Source>
using PredictedBy =
    loop::Predicted<Run,
                    Batch<Run, Source, phase::Predict,
                          std::remove_reference_t<std::tuple_element_t<
                              0, decltype(std::declval<Source&>().template evaluation<hook::predict_dataloader>())>>>>;

/// Whether a call goes on from a file, or from a snapshot of the same kind of run.
template <class Run, class From>
consteval bool of_this_run() {
  constexpr bool fits = !loop::is_snapshot<From> || std::is_same_v<From, Snapshot<Run>>;
  static_assert(fits, "[fulgurite.trainer.snapshot] the snapshot is of a trainer of another model, strategy, precision "
                      "or optimization: take one of this trainer, by snapshot(trainer)");
  return fits;
}

}  // namespace fulgurite::judge
