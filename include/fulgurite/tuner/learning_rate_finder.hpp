#pragma once
// Finds a learning rate when a fit starts, and again at milestones.

#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/core/state.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/tuner/milestones.hpp>
#include <fulgurite/tuner/rate_search.hpp>

namespace fulgurite {

/// What a LearningRateFinder tries out, and when it does so again.
template <class Model>
struct LearningRateFinderOptions {
  /// How it searches: from which rate to which, in how many steps; see tune::RateSearch.
  tune::RateSearch<Model> search = {};
  std::vector<int> milestones = {};  ///< epochs before which it searches again, such as those that unfreeze a part
};

/// `LearningRateFinder<Net>{{.search = {.max_lr = 0.1}, .milestones = {5, 10}}}`: when the fit starts, tries rising
/// rates out (tune::lr_find says how), puts everything back, and goes on with the rate where the loss fell the fastest:
/// the optimizer's groups keep their ratio, schedules start from it, and it is put into the model. At a milestone the
/// same, from the weights and moments at hand. Where too few steps could be made that is a warning, and the rates stay.
/// All others have heard `on_fit_start`, or `on_train_epoch_start`, when it searches; they hear nothing of its steps.
///
/// A fit that goes on from a file does not search again for what was found before. To search at other times derive from
/// it, hide its hooks, and call `lr_find(ctx)` from yours.
template <class Model>
class LearningRateFinder {
 public:
  using Hooks = Implements<hook::setup, hook::on_fit_start, hook::on_train_epoch_start>;
  static constexpr Order order = Order::tuner;
  static constexpr bool searches = true, finds_rate = true, needs_automatic = true, needs_one_optimizer = true,
                        inert_in_dev_run = true;
  static constexpr std::string_view writes = "learning rates, the model's field of them";

  LearningRateFinder() : LearningRateFinder(LearningRateFinderOptions<Model>{}) {}
  explicit LearningRateFinder(LearningRateFinderOptions<Model> options) : options_(std::move(options)) {
    tune::check(options_.search);
    tune::check_milestones("LearningRateFinder", options_.milestones);
  }

  void setup(auto& ctx) {
    if (ctx.stage() == Stage::fit) searched_ = false;
  }
  void on_fit_start(auto& ctx) {
    if (!searched_) lr_find(ctx);
  }
  void on_train_epoch_start(auto& ctx) {
    if (tune::is_milestone(ctx.current_epoch(), options_.milestones)) lr_find(ctx);
  }

  /// What the last search found; empty before.
  tune::FoundRate const& results() const { return found_; }

  void state(auto& archive) { archive("searched", searched_).option("milestones", options_.milestones); }

 protected:
  /// Asks for a search at the next place between two epochs.
  void lr_find(auto& ctx) {
    if (ctx.dev_run()) return;
    ctx.request_search([this](auto& rehearser) {
      found_ = tune::find_rate(rehearser, options_.search);
      searched_ = true;
      tune::tell_none(rehearser, found_.suggested);
      if (!found_.suggested) return;
      auto& rates = rehearser.rates();
      rates.begin_from(tune::in_ratio(rates.initial(), *found_.suggested));
      options_.search.update.set(rehearser.context().model(), *found_.suggested);
    });
  }

 private:
  LearningRateFinderOptions<Model> options_;
  tune::FoundRate found_{};
  bool searched_ = false;
};

}  // namespace fulgurite
