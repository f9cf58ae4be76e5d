#pragma once
// An average of a model's weights, kept beside the model: what the averaging callbacks share.

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/checkpoint/saved_value.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>

namespace fulgurite {

/// The mean of all weights that were averaged.
struct RunningMean {
  using Stateless = ByChoice;
  constexpr double operator()(long averaged) const { return 1.0 / static_cast<double>(averaged + 1); }
};

/// How new weights enter an average of `averaged` earlier ones: their share in it, `double (long averaged)`, or each new average
/// itself, `Value (Value average, Value weight, long averaged)`.
template <class F, class Value>
concept AveragingFunction = std::is_invocable_r_v<double, F&, long> || std::is_invocable_r_v<Value, F&, Value const&, Value const&, long>;

/// Holds one value for each weight of the model (and each buffer, where asked). Whole numbers, such as a count of batches, are
/// no matter of averaging: they stay the model's own.
class AveragedWeights {
 public:
  /// Looks up the model's values, once a fit: later calls reach them without a walk over the model. What a checkpoint has
  /// loaded is taken up; else nothing is averaged yet.
  template <class F, class Ctx>
  void bind(Ctx const& ctx, bool with_buffers) {
    using Backend = typename Ctx::Backend;
    constexpr bool function = AveragingFunction<F, typename Backend::Value>;  // a bool: the concept's own explanation would bury the sentence
    static_assert(function, "[fulgurite.callback.averaging_function] an averaging function takes (long averaged) and returns the share of the "
                            "new weights, or (average, weight, long averaged) and returns the new average");
    auto made = std::make_shared<Of<Backend>>();
    auto const take = [&](auto const& values) {
      for (auto const& value : values)
        if (Backend::averages(value)) made->live.push_back(value);
    };
    take(Backend::weights(ctx.model()));
    if (with_buffers) take(Backend::buffers(ctx.model()));
    if (made->live.empty())
      throw Error("fulgurite.callback.nothing_to_average", "the model has no parameter to average: register its parameters, or leave the averaging out");
    values_ = made;
    if (loaded_) restore<Backend>();
    else count_ = 0, in_model_ = false;
  }

  /// The present weights enter the average; the first ones are it.
  template <class Ctx, class F>
  void update(Ctx const&, F& average) {
    using Backend = typename Ctx::Backend;
    using Value = typename Backend::Value;
    [[maybe_unused]] auto const no_graph = Backend::no_grad(false);
    auto& [live, kept] = of<Backend>();
    if (count_ == 0) {
      kept = Backend::clones(live);
    } else if constexpr (std::is_invocable_r_v<double, F&, long>) {
      Backend::lerp_into(std::span<Value>(kept), std::span<Value const>(live), static_cast<double>(average(count_)));
    } else if constexpr (AveragingFunction<F, Value>) {
      for (std::size_t i = 0; i != live.size(); ++i)
        Backend::copy_into(kept[i], average(std::as_const(kept[i]), std::as_const(live[i]), count_));
    }
    ++count_;
  }

  /// The average and the model's weights change places.
  template <class Ctx>
  void exchange(Ctx const&) {
    exchange_in<typename Ctx::Backend>();
  }

  bool bound() const { return values_ != nullptr; }
  bool any() const { return bound() && count_ != 0; }
  bool in_model() const { return in_model_; }  ///< they have changed places
  long count() const { return count_; }

  void state(auto& archive) {
    constexpr bool loading = std::remove_cvref_t<decltype(archive)>::loading;
    std::vector<SavedValue> values;
    if constexpr (!loading) {
      if (loaded_) values = *loaded_;
      else if (values_) values = values_->saved();
    }
    archive("n_averaged", count_)("in_model", in_model_)("values", values);
    if constexpr (loading) loaded_ = std::move(values);
  }

 private:
  // The callback is made before anybody knows the tensor library, and is saved without it: so the values are behind an interface.
  struct Values {
    virtual ~Values() = default;
    virtual std::vector<SavedValue> saved() const = 0;
  };
  template <class Backend>
  struct Stored {
    std::vector<typename Backend::Value> live = {}, kept = {};
  };
  template <class Backend>
  struct Of final : Values, Stored<Backend> {
    std::vector<SavedValue> saved() const override {
      std::vector<SavedValue> all;
      for (auto const& value : this->kept) all.push_back(Backend::saved(value));
      return all;
    }
  };
  template <class Backend>
  Stored<Backend>& of() const {
    return static_cast<Of<Backend>&>(*values_);
  }

  template <class Backend>
  void exchange_in() {
    [[maybe_unused]] auto const no_graph = Backend::no_grad(false);
    auto& [live, kept] = of<Backend>();
    for (std::size_t i = 0; i != kept.size(); ++i) {
      auto const was = Backend::clone(live[i]);
      Backend::copy_into(live[i], kept[i]);
      Backend::copy_into(kept[i], was);
    }
    in_model_ = !in_model_;
  }

  template <class Backend>
  void restore() {
    auto& [live, kept] = of<Backend>();
    if (!loaded_->empty() && loaded_->size() != live.size())
      throw Error("fulgurite.callback.average_mismatch", "the saved average is of " + std::to_string(loaded_->size()) + " tensors, the model has " +
                                                             std::to_string(live.size()) + " to average: resume with the model and the options "
                                                             "that were saved");
    [[maybe_unused]] auto const no_graph = Backend::no_grad(false);
    if (!loaded_->empty()) kept = Backend::clones(live);
    for (std::size_t i = 0; i != loaded_->size(); ++i) Backend::restore(kept[i], (*loaded_)[i]);
    loaded_.reset();
    if (in_model_) exchange_in<Backend>();
  }

  std::shared_ptr<Values> values_ = nullptr;
  std::optional<std::vector<SavedValue>> loaded_ = std::nullopt;
  long count_ = 0;
  bool in_model_ = false;
};

}  // namespace fulgurite
