#pragma once
// An average of a model's weights, kept beside the model: what the averaging callbacks share.

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/checkpoint/saved_tensor.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>

namespace fulgurite {

/// The mean of all weights that were averaged.
struct RunningMean {
  using Stateless = ByChoice;
  constexpr double operator()(long averaged) const { return 1.0 / static_cast<double>(averaged + 1); }
};

/// How new weights enter an average of `averaged` earlier ones. Such a function returns either their share in the new
/// average, `double (long averaged)`, or the new average of one tensor, `Value (Value average, Value weight, long
/// averaged)`.
template <class F, class Value>
concept AveragingFunction =
    std::is_invocable_r_v<double, F&, long> || std::is_invocable_r_v<Value, F&, Value const&, Value const&, long>;

/// An average of the model's weights, and of its buffers where that is asked for. Whole numbers, such as a count of
/// batches, are not averaged: they stay the model's own.
class AveragedWeights {
 public:
  /// Finds the model's weights, once a fit, so that later calls need not walk over the model. An average that was
  /// loaded from a checkpoint is taken over; else nothing is averaged yet.
  template <class F, class Ctx>
  void bind(Ctx const& ctx, bool with_buffers) {
    using Backend = typename Ctx::Backend;
    constexpr bool function =
        AveragingFunction<F, typename Backend::Value>;  // a bool: the concept's own explanation would bury the sentence
    static_assert(function, "[fulgurite.callback.averaging_function] an averaging function takes (long averaged) and "
                            "returns the share of the "
                            "new weights, or (average, weight, long averaged) and returns the new average");
    auto made = std::make_shared<Of<Backend>>();
    auto const take = [&](auto const& values) {
      for (auto const& value : values)
        if (Backend::averages(value)) made->live.push_back(value);
    };
    take(Backend::weights(ctx.model()));
    if (with_buffers) take(Backend::buffers(ctx.model()));
    if (made->live.empty())
      throw Error("fulgurite.callback.nothing_to_average",
                  "the model has no parameter to average: register its parameters, or leave the averaging out");
    values_ = made;
    in_fit_ = true;
    if (auto const loaded = std::exchange(loaded_, std::nullopt)) {
      made->load (*loaded)();
      if (in_model_) exchange_in<Backend>();
    } else {
      count_ = 0, in_model_ = false;
    }
  }
  /// A state that was loaded is not gone on with.
  void do_not_continue() { loaded_.reset(); }
  /// Ends the fit: a state that is loaded from now on is for the next one.
  void leave() { in_fit_ = false; }

  /// Takes the present weights into the average. The first ones are the average.
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

  /// Exchanges the average and the model's weights.
  template <class Ctx>
  void exchange(Ctx const&) {
    exchange_in<typename Ctx::Backend>();
  }

  bool bound() const { return values_ != nullptr; }
  bool in_fit() const { return in_fit_; }
  bool any() const { return bound() && count_ != 0; }
  bool in_model() const { return in_model_; }  ///< whether the average is in the model now
  long count() const { return count_; }

  /// Saves or loads the average. Loaded within a fit, it is a state of that same fit, which goes back and restores the
  /// model's weights as well, so the average takes effect at once and nothing is exchanged. Otherwise it waits for the
  /// next fit's `bind`.
  void state(auto& archive) {
    constexpr bool loading = std::remove_cvref_t<decltype(archive)>::loading;
    std::vector<SavedTensor> values;
    if constexpr (!loading) {
      if (loaded_) values = *loaded_;
      else if (values_) values = values_->saved();
    }
    archive("n_averaged", count_)("in_model", in_model_)("values", values);
    if constexpr (loading) {
      if (in_fit_) commit(archive, values_->load(values));
      else loaded_ = std::move(values);
    }
  }

 private:
  // The callback is made before the tensor library is known, and is saved without knowing it: hence an interface.
  struct Values {
    virtual ~Values() = default;
    virtual std::vector<SavedTensor> saved() const = 0;
    /// Returns what puts them in their place, once they are known to fit. None: nothing is averaged yet.
    virtual std::function<void()> load(std::vector<SavedTensor> const& saved) = 0;
  };
  template <class Backend>
  struct Stored {
    std::vector<typename Backend::Value> live = {}, kept = {};
  };
  template <class Backend>
  struct Of final : Values, Stored<Backend> {
    std::vector<SavedTensor> saved() const override {
      std::vector<SavedTensor> all;
      for (auto const& value : this->kept) all.push_back(Backend::saved(value).written_last());
      return all;
    }
    std::function<void()> load(std::vector<SavedTensor> const& saved) override {
      if (!saved.empty() && saved.size() != this->live.size())
        throw Error("fulgurite.callback.average_mismatch",
                    "the saved average is of " + std::to_string(saved.size()) + " tensors, the model has " +
                        std::to_string(this->live.size()) +
                        " to average: resume with the model and the options that were saved");
      for (std::size_t i = 0; i != saved.size(); ++i) Backend::require_fit(this->live[i], saved[i]);
      [[maybe_unused]] auto const no_graph = Backend::no_grad(false);
      if (saved.empty()) this->kept.clear();
      else if (this->kept.size() != saved.size()) this->kept = Backend::clones(this->live);
      return [to = this->kept, saved] {
        using Tensors = std::span<typename Backend::Value const>;
        Backend::restore(Tensors(to), std::span<SavedTensor const>(saved));
      };
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

  std::shared_ptr<Values> values_ = nullptr;
  std::optional<std::vector<SavedTensor>> loaded_ = std::nullopt;
  long count_ = 0;
  bool in_model_ = false;
  bool in_fit_ = false;
};

}  // namespace fulgurite
