#pragma once
// Trains a model's head first, and its backbone from some epoch on, at a rate of its own.

#include <algorithm>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>

#include <fulgurite/callback/base_finetuning.hpp>
#include <fulgurite/core/tell.hpp>

namespace fulgurite {

/// When the backbone begins to train, and how its learning rate grows towards the head's.
struct BackboneFinetuningOptions {
  /// The epoch, counted from 0, at whose start the backbone begins to learn.
  int unfreeze_backbone_at_epoch = 10;
  /// By what the backbone's rate is multiplied at the start of each later epoch; called with its number + 1.
  std::function<double(int)> lambda_func = [](int) { return 2.0; };
  double backbone_initial_ratio_lr = 0.1;                    ///< the backbone's first rate, as a part of the head's
  std::optional<double> backbone_initial_lr = std::nullopt;  ///< the backbone's first rate, in place of the ratio
  bool should_align = true;                                  ///< the backbone's rate never grows above the head's
  bool train_bn =
      true;  ///< batch norms of the backbone train from the start; false: never, and their statistics do not change
  bool verbose = false;  ///< write both rates to stderr at each epoch
};

/// Trains the head of a model first, and its backbone from some epoch on:
/// `BackboneFinetuning{{.unfreeze_backbone_at_epoch = 5}}`. The model needs a member `backbone`. Give its (first)
/// optimizer the parameters that train from the start, `head->parameters()` or `filter_params(*this)`; the backbone
/// becomes a further parameter group of that optimizer. The optimizer's schedule does not move this group:
/// `lambda_func` does, from the rate that it has, which a LearningRateFinder may have set; until a
/// StochasticWeightAveraging beside it begins to set the rates.
class BackboneFinetuning : public BaseFinetuning<BackboneFinetuning> {
  using Base = BaseFinetuning<BackboneFinetuning>;

 public:
  static constexpr bool needs_backbone = true;  ///< a model without a member of that name is refused

  explicit BackboneFinetuning(BackboneFinetuningOptions options = {}) : options_(std::move(options)) {
    auto const refuse = [](std::string const& what) {
      throw Error("fulgurite.callback.backbone_finetuning_options", "BackboneFinetuning: " + what);
    };
    if (options_.unfreeze_backbone_at_epoch < 0) refuse("unfreeze_backbone_at_epoch counts from 0");
    if (!(options_.backbone_initial_ratio_lr > 0)) refuse("backbone_initial_ratio_lr is above 0");
    if (options_.backbone_initial_lr && !(*options_.backbone_initial_lr > 0)) refuse("backbone_initial_lr is above 0");
    if (!options_.lambda_func)
      refuse("lambda_func is empty: leave it out for a factor of 2, or give a function of the epoch");
  }

  void state(auto& archive) {
    Base::state(archive);
    archive.option("unfreeze_backbone_at_epoch", options_.unfreeze_backbone_at_epoch);
    archive.option("backbone_initial_ratio_lr", options_.backbone_initial_ratio_lr);
    archive.option("backbone_initial_lr", options_.backbone_initial_lr);
    archive.option("should_align", options_.should_align).option("train_bn", options_.train_bn);
  }

  void freeze_before_training(auto& ctx) {
    using Backend = typename std::remove_cvref_t<decltype(ctx)>::Backend;
    with_backbone(ctx, [&](auto& backbone) { Backend::freeze(backbone, options_.train_bn); });
  }

  void on_fit_start(auto& ctx) {
    using Backend = typename std::remove_cvref_t<decltype(ctx)>::Backend;
    ctx.each_optimizer([&](std::size_t at, auto& optimizer) {
      if (at != 0 || !added_groups().empty()) return;
      with_backbone(ctx, [&](auto& backbone) {
        for (auto const& frozen : Backend::filter_params(backbone, false))
          if (finetuning::has<Backend>(optimizer, frozen)) refuse_optimizer();
      });
    });
    Base::on_fit_start(ctx);
  }

  void finetune_function(int epoch, auto& optimizer, auto& ctx) {
    if (position() != 0 || epoch < options_.unfreeze_backbone_at_epoch) return;
    double const head = optimizer.lr(0);
    if (groups().empty()) {
      double const first = options_.backbone_initial_lr.value_or(head * options_.backbone_initial_ratio_lr);
      with_backbone(ctx, [&](auto& backbone) {
        unfreeze_and_add_param_group(backbone, optimizer, ctx, {.lr = first, .train_bn = options_.train_bn});
      });
    } else if (auto& group = groups().front();
               epoch > group.lr_epoch) {             // a fit that continues this epoch has the rate already
      double const now = optimizer.lr(group.group);  // a search may have found another than was set here
      double const next = options_.lambda_func(epoch + 1) * now;
      group.lr = options_.should_align ? std::min(next, head) : next;
      group.lr_epoch = epoch;
      optimizer.set_lr(group.group, group.lr);
    }
    if (options_.verbose && ctx.rank() == 0 && !groups().empty())
      tell(stderr, "BackboneFinetuning: epoch " + std::to_string(epoch) + ", head's rate " + report::exact(head) +
                       ", backbone's " + report::exact(groups().front().lr) + "\n");
  }

 private:
  // The trainer refuses a model without a backbone in a sentence of its own, so this says nothing.
  static void with_backbone(auto& ctx, auto&& f) {
    if constexpr (requires { ctx.model().backbone; }) f(ctx.model().backbone);
  }
  [[noreturn]] void refuse_optimizer() const {
    throw Error("fulgurite.callback.backbone_in_optimizer",
                "BackboneFinetuning adds the backbone to the optimizer in epoch " +
                    std::to_string(options_.unfreeze_backbone_at_epoch) +
                    ", but configure_optimizers has given it to it already: give it what trains from the start, as "
                    "head->parameters() or filter_params(*this)");
  }

  BackboneFinetuningOptions options_;
};

}  // namespace fulgurite
