#pragma once
// Changes the number of accumulated batches by epoch. See docs/semantics.md, Accumulation.

#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/hook/hooks.hpp>

namespace fulgurite {

/// Changes how many batches are accumulated for a step, by epoch: `GradientAccumulationScheduler{{0, 8}, {4, 4}, {8,
/// 1}}` accumulates 8 batches in epochs 0 to 3, 4 in epochs 4 to 7, then 1. Epochs count from 0; before the first key
/// the number is 1. Throws [fulgurite.callback.accumulation] for an empty schedule, a negative epoch or a window below
/// 1, and, when a fit starts, if Automatic{.accumulate_grad_batches} is not 1.
class GradientAccumulationScheduler {
 public:
  using Hooks = Implements<hook::on_fit_start, hook::on_train_epoch_start>;
  static constexpr bool needs_automatic = true;
  static constexpr bool varies_window = true;
  static constexpr std::string_view writes = "accumulate_grad_batches";

  explicit GradientAccumulationScheduler(std::map<int, int> scheduling);
  /// With or without braces around the pairs.
  GradientAccumulationScheduler(std::initializer_list<std::pair<int const, int>> scheduling);

  void on_fit_start(auto& ctx) {
    if (int const given = ctx.accumulate_grad_batches(); given != 1)
      refuse("and accumulate_grad_batches = " + std::to_string(given) +
             " would both set the window: leave one of them out");
    using Model = std::remove_cvref_t<decltype(ctx.model())>;
    if constexpr (hook::optimizer_step::named<Model> || hook::optimizer_zero_grad::named<Model>)
      ctx.warn(
          "fulgurite.callback.once_a_window",
          "GradientAccumulationScheduler: the model has an optimizer_step or optimizer_zero_grad of its own, which "
          "is called once a window, of whatever length");
  }
  void on_train_epoch_start(auto& ctx) { ctx.accumulate(window(ctx.current_epoch())); }

  /// The number of batches that are accumulated for a step in an epoch.
  int window(int epoch) const;

  void state(auto& archive);

 private:
  [[noreturn]] static void refuse(std::string const& what) {
    throw Error("fulgurite.callback.accumulation", "GradientAccumulationScheduler " + what);
  }
  std::map<int, int> scheduling_;
};

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/callback/gradient_accumulation_scheduler.ipp>
#endif
