#pragma once
// Trainer: owns policies, callbacks and counters, borrows model and data. Assembled, and refused, by the compiler.

#include <filesystem>
#include <optional>
#include <ranges>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/loop/fit.hpp>
#include <fulgurite/loop/judge_call.hpp>
#include <fulgurite/loop/predict.hpp>
#include <fulgurite/loop/refusals.hpp>

namespace fulgurite {

/// What a trainer holds, if it is well-formed. A refused one is hollow: it declares the interface, so that nothing else is reported.
template <bool Sound, class M, class S, class P, class O, class... Cs>
class TrainerBody {
 public:
  TrainerBody(TrainerOptions, S, P, O, Cs...) {}
  template <class... Args>
  void fit(Args&&...) {}
  template <class... Args>
  std::vector<std::vector<MetricValue>> validate(Args&&...) {
    return {};
  }
  template <class... Args>
  std::vector<std::vector<MetricValue>> test(Args&&...) {
    return {};
  }
  template <class... Args>
  int predict(Args&&...) {
    return 0;
  }
  void save_checkpoint(std::filesystem::path const&) {}
  template <class T>
  T& callback();
  template <class Metric>
  std::optional<double> value(Metric const&) const {
    return {};
  }
  Progress const& progress() const;
  Outcome const& outcome() const;
  TrainerOptions const& options() const;
};

template <class M, class S, class P, class O, class... Cs>
class TrainerBody<true, M, S, P, O, Cs...> {
 public:
  using Run = fulgurite::Run<M, S, P, O>;

  TrainerBody(TrainerOptions options, S strategy, P precision, O optimization, Cs... callbacks)
      : state_{.options = std::move(options), .strategy = std::move(strategy), .precision = std::move(precision), .optimization = std::move(optimization)},
        pack_{Slots<Cs...>(std::move(callbacks)...)} {}

  /// Trains on a data module (or the model's own loaders).
  template <class Model, class Data>
    requires(!std::ranges::range<Data>)
  void fit(Model& model, Data&& data) {
    fit_from<Model, loop::ModuleLoaders<std::remove_reference_t<Data>, true>, false>(model, data);
  }
  template <class Model, class Data>
    requires(!std::ranges::range<Data>)
  void fit(Model& model, Data&& data, NoValidation) {
    fit_from<Model, loop::ModuleLoaders<std::remove_reference_t<Data>, false>, true>(model, data);
  }
  /// Trains on a loader, without validation.
  template <class Model, std::ranges::range Train>
  void fit(Model& model, Train&& train) {
    NoModule none;
    fit_from<Model, loop::GivenLoaders<std::remove_reference_t<Train>, NoModule>, false>(model, train, none);
  }
  /// Trains on a loader, validates on one (or a std::tuple of them), or says NoValidation{}.
  template <class Model, std::ranges::range Train, class Val>
  void fit(Model& model, Train&& train, Val&& val) {
    using V = std::remove_reference_t<Val>;
    fit_from<Model, loop::GivenLoaders<std::remove_reference_t<Train>, V>, std::is_same_v<std::remove_const_t<V>, NoValidation>>(model, train, val);
  }
  /// The model has the loaders itself.
  template <class Model>
  void fit(Model& model) {
    fit_from<Model, loop::ModuleLoaders<Model, true>, false>(model, model);
  }

  /// One pass of validation_step, gradients off; the values of each loader.
  template <class Data>
  std::vector<std::vector<MetricValue>> validate(M& model, Data&& data) {
    return evaluate_with<loop::Validation>(model, data, Stage::validate, state_.options.limit_val_batches);
  }
  /// One pass of test_step, gradients off; the values of each loader.
  template <class Data>
  std::vector<std::vector<MetricValue>> test(M& model, Data&& data) {
    return evaluate_with<loop::Testing>(model, data, Stage::test, state_.options.limit_test_batches);
  }

  /// What predict_step returned for each batch, for each loader.
  template <class Data>
  auto predict(M& model, Data&& data) {
    using D = std::remove_reference_t<Data>;
    if constexpr (std::ranges::range<D> || loop::is_tuple<D>) {
      NoModule none;
      loop::GivenLoaders<NoModule, D> source{none, data};
      return predict_from(model, source);
    } else {
      loop::ModuleLoaders<D, true> source(data);
      return predict_from(model, source);
    }
  }

  /// Weights and the state of the run, now; between fits, or from a hook through ctx.request_checkpoint.
  void save_checkpoint(std::filesystem::path const& path) {
    if (!state_.model || !state_.optimizers)
      throw Error("fulgurite.trainer.nothing_to_save", "there is no run to save to " + path.string() + " yet: call fit first");
    loop::write_checkpoint(state_, pack_, path);
  }

  template <class T>
  T& callback() {
    static_assert(Slots<Cs...>::template index_of<T>() < sizeof...(Cs),
                  "[fulgurite.trainer.callback] this trainer has no callback of that type: name one of those given to make_trainer");
    return pack_.slots.template get<T>();
  }

  /// A metric's value of the last finished epoch or evaluation.
  template <class Metric>
  std::optional<double> value(Metric const& metric) {
    state_.facts.validating = false;
    return Context<Run, phase::Validate>(state_).value(metric);
  }

  Progress const& progress() const { return state_.progress; }
  Outcome const& outcome() const { return state_.outcome; }
  TrainerOptions const& options() const { return state_.options; }

 private:
  template <class Model, class Source, bool Waived, class... From>
  void fit_from(Model& model, From&... from) {
    constexpr Verdict verdict = [] {
      if constexpr (!std::is_same_v<Model, M>) return Verdict{Fault::derived_model};
      else return judge::fit<Run, Pack<Cs...>, Source, Waived>();
    }();
#define FULGURITE_V verdict
    FULGURITE_REFUSE_CALL
#undef FULGURITE_V
    if constexpr (verdict.ok()) {
      Source source{from...};
      state_.model = &model;
      loop::fit(state_, pack_, source);
    }
  }

  template <class Kind, class Data>
  auto evaluate_with(M& model, Data& data, Stage stage, Limit const& limit) {
    if constexpr (std::ranges::range<Data> || loop::is_tuple<Data>) {
      NoModule none;
      loop::GivenLoaders<NoModule, Data> source{none, data};
      return evaluate_from<Kind>(model, source, stage, limit);
    } else {
      loop::ModuleLoaders<Data, true> source(data);
      return evaluate_from<Kind>(model, source, stage, limit);
    }
  }

  template <class Kind, class Source>
  std::vector<std::vector<MetricValue>> evaluate_from(M& model, Source& source, Stage stage, Limit const& limit) {
    constexpr Verdict verdict = judge::evaluates<Run, Kind, Pack<Cs...>, Source>();
#define FULGURITE_V verdict
    FULGURITE_REFUSE_CALL
#undef FULGURITE_V
    if constexpr (verdict.ok()) {
      state_.model = &model;
      return loop::run_evaluation<Kind>(state_, pack_, source, stage, limit);
    } else {
      return {};
    }
  }

  template <class Source>
  auto predict_from(M& model, Source& source) {
    constexpr Verdict verdict = judge::evaluates<Run, loop::Prediction, Pack<Cs...>, Source>();
#define FULGURITE_V verdict
    FULGURITE_REFUSE_CALL
#undef FULGURITE_V
    if constexpr (verdict.ok()) {
      using Loaders = decltype(source.template evaluation<hook::predict_dataloader>());
      using Loader = std::remove_reference_t<std::tuple_element_t<0, Loaders>>;
      using T = loop::Predicted<Run, judge::Batch<Run, Source, phase::Predict, Loader>>;
      state_.model = &model;
      auto const& limit = state_.options.limit_predict_batches;
      loop::check_limit("limit_predict_batches", limit);
      state_.facts = {};
      state_.facts.stage = Stage::predict;
      Context<Run, phase::Predict> ctx(state_);
      return loop::framed(state_, pack_, source, [&] {
        loop::set_up(state_, pack_, source, ctx);
        std::vector<std::vector<T>> predictions;
        if (!limit.none()) predictions = loop::predict<T>(state_, pack_, source, source.template evaluation<hook::predict_dataloader>());
        state_.strategy.teardown(model);
        loop::tell_all<hook::teardown>(state_, pack_, source, ctx);
        loop::finalize_loggers(pack_, Status::success);
        return predictions;
      });
    }
  }

  loop::State<Run> state_;
  Pack<Cs...> pack_;
};

/// A trainer for one model type, assembled from a strategy, a precision, an optimization and callbacks; see make_trainer.
template <class M, class S, class P, class O, class... Cs>
class Trainer : public TrainerBody<judge::trainer<M, S, P, O, Cs...>().ok(), M, S, P, O, Cs...> {
  static constexpr Verdict verdict = judge::trainer<M, S, P, O, Cs...>();
#define FULGURITE_V verdict
  FULGURITE_REFUSE_TRAINER
#undef FULGURITE_V

 public:
  using TrainerBody<verdict.ok(), M, S, P, O, Cs...>::TrainerBody;
};

/// `auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 10}, SingleDevice{cpu}, Float32{}, Automatic{}, ProgressBar{});`
template <class M, class S, class P, class O, class... Cs>
Trainer<M, S, P, O, Cs...> make_trainer(TrainerOptions options, S strategy, P precision, O optimization, Cs... callbacks) {
  return Trainer<M, S, P, O, Cs...>(std::move(options), std::move(strategy), std::move(precision), std::move(optimization),
                                    std::move(callbacks)...);
}

}  // namespace fulgurite
