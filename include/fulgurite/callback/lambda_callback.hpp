#pragma once
// Hooks defined in place: LambdaCallback{on<hook::on_train_start>([](auto& ctx) { ... })}.

#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/hook/hooks.hpp>

namespace fulgurite {

/// Names one function after one event. For a hook that is not an event (an override, a step) no function is called: the
/// trainer refuses it.
template <class Event, class F>
struct On {
  static constexpr bool names_no_event = true;
  F function;
};

#define FULGURITE_ROW(NAME, ...)                                                                                       \
  template <class F>                                                                                                   \
  struct On<hook::NAME, F> {                                                                                           \
    F function;                                                                                                        \
    template <class... A>                                                                                              \
      requires std::invocable<F&, A&...>                                                                               \
    decltype(auto) NAME(A&... arguments) {                                                                             \
      return function(arguments...);                                                                                   \
    }                                                                                                                  \
  };
FULGURITE_EVENTS(FULGURITE_ROW)
#undef FULGURITE_ROW

/// A function for one event, with any signature that the event has: `on<hook::on_train_batch_end>([](auto& batch, auto&
/// ctx) { ... })`.
template <class Event, class F>
On<Event, F> on(F function) {
  return {std::move(function)};
}

namespace lambda {
template <class>
struct EventOf;
template <class Event, class F>
struct EventOf<On<Event, F>> {
  using type = Event;
};
template <class On, class... Ons>
inline constexpr bool named_once =
    (std::size_t{std::is_same_v<typename EventOf<On>::type, typename EventOf<Ons>::type>} + ...) == 1;
}  // namespace lambda

/// A callback made of functions, each for a different event, for cases where a struct would be too much: prints,
/// counters, probes. The captures of the functions are not saved.
///
///     LambdaCallback{on<hook::on_train_epoch_end>([](auto& ctx) { ctx.print("epoch over"); })}
template <class... Ons>
struct LambdaCallback : Ons... {
  using Stateless = ByChoice;
  // The trainer refuses either.
  static constexpr bool names_no_event = (requires { Ons::names_no_event; } || ...);
  static constexpr bool names_event_twice = !(lambda::named_once<Ons, Ons...> && ...);
  explicit LambdaCallback(Ons... functions) : Ons(std::move(functions))... {}
};

// Passes predictions to a writer of yours, batch by batch or all of them at the end.

/// The positions of a batch's samples in their loader, counted from 0 in loading order. With several processes,
/// positions count in the whole loader if each process reads its part of a loader of this library. If a process has a
/// loader of its own (`of_this_rank`, `use_distributed_sampler = false`, your own `shard`), they count in that loader.
using BatchIndices = std::vector<long>;

/// The writer of `PredictionWriter{}`, which does not compile.
struct MissingWriter {};

/// Passes predictions to a writer: `PredictionWriter{ToDisk{"out"}}`. The writer has one or both of these functions:
///
///     void write_on_batch_end(auto const& prediction, BatchIndices const& indices, auto& batch, auto& ctx);
///     void write_on_epoch_end(auto const& predictions, std::vector<std::vector<BatchIndices>> const& indices,
///                             auto& ctx);
///
/// `prediction` is the value that predict_step returned; an epoch's `predictions` and `indices` are indexed
/// [loader][batch]. ctx has batch_idx() and loader(). Predictions are kept in memory only for a writer with
/// write_on_epoch_end, which is not called for an epoch without any.
template <class Writer>
class PredictionWriter {
 public:
  using Hooks = Implements<hook::on_predict_epoch_start, hook::on_predict_batch_end, hook::on_predict_epoch_end>;
  using Stateless = ByChoice;
  static constexpr std::string_view reads = "predictions";

  explicit PredictionWriter(Writer writer) : writer_(std::move(writer)) {}
  /// Refused at compile time: there is no writer to pass predictions to.
  PredictionWriter()
    requires std::same_as<Writer, MissingWriter>
  {
    constexpr bool has_writer = !std::same_as<Writer, MissingWriter>;
    static_assert(has_writer, "[fulgurite.callback.prediction_writer] predictions go to a writer of yours: write "
                              "PredictionWriter{ToDisk{\"out\"}}, where ToDisk is a struct with write_on_batch_end or "
                              "write_on_epoch_end");
  }

  void on_predict_epoch_start() {
    indices_.clear();
    loader_ = 0;
    delivered_ = 0;
    finish_ = nullptr;
    predictions_ = nullptr;
  }

  void on_predict_batch_end(auto& outputs, auto& batch, auto& ctx) {
    using Prediction = std::remove_cvref_t<decltype(outputs)>;
    using Ctx = std::remove_cvref_t<decltype(ctx)>;
    auto const indices = next(ctx);
    constexpr bool by_batch = requires { writer_.write_on_batch_end(std::as_const(outputs), indices, batch, ctx); };
    constexpr bool by_epoch =
        requires(std::vector<std::vector<Prediction>> const& all) { writer_.write_on_epoch_end(all, indices_, ctx); };
    static_assert(by_batch || by_epoch, "[fulgurite.callback.prediction_writer] the writer needs "
                                        "write_on_batch_end(prediction, indices, batch, ctx) or "
                                        "write_on_epoch_end(predictions, indices, ctx)");
    if constexpr (by_batch) writer_.write_on_batch_end(std::as_const(outputs), indices, batch, ctx);
    if constexpr (by_epoch) {
      using All = std::vector<std::vector<Prediction>>;
      // The type of a prediction is known here but not at the end of the epoch, so the function for the epoch's end is
      // made here.
      if (!predictions_) {
        auto const all = std::make_shared<All>();
        predictions_ = all;
        finish_ = [this, all](void* context) {
          auto& at_end = *static_cast<Ctx*>(context);
          all->resize(at_end.loader_names().size());  // the last loaders may have had no prediction
          indices_.resize(all->size());
          writer_.write_on_epoch_end(std::as_const(*all), indices_, at_end);
        };
      }
      auto& all = *static_cast<All*>(predictions_.get());
      all.resize(ctx.loader() + 1);
      indices_.resize(ctx.loader() + 1);
      all.back().push_back(outputs);
      indices_.back().push_back(indices);
    }
  }

  void on_predict_epoch_end(auto& ctx) {
    if (finish_) finish_(&ctx);
    on_predict_epoch_start();
  }

  Writer& writer() { return writer_; }
  Writer const& writer() const { return writer_; }

 private:
  BatchIndices next(auto& ctx) {
    if (std::exchange(loader_, ctx.loader()) != ctx.loader()) delivered_ = 0;
    BatchIndices indices(static_cast<std::size_t>(ctx.batch_size()));
    for (auto& index : indices) index = ctx.sample_place(delivered_++);
    return indices;
  }

  Writer writer_;
  std::vector<std::vector<BatchIndices>> indices_{};
  std::size_t loader_ = 0;  ///< the current loader
  long delivered_ = 0;      ///< samples of the current loader so far
  std::shared_ptr<void> predictions_{};
  std::function<void(void*)> finish_{};
};
PredictionWriter() -> PredictionWriter<MissingWriter>;

}  // namespace fulgurite
