#pragma once
// Trains a model's head first, and its backbone from a later epoch on, with a learning rate of its own.

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/report/terminal.hpp>

namespace fulgurite {

// A base for callbacks that train a part of the model later than the rest: it freezes parts, and makes them trainable
// again.

/// How `unfreeze_and_add_param_group` adds a part to an optimizer.
struct UnfreezeOptions {
  std::optional<double> lr = std::nullopt;  ///< not given: the first group's current rate / initial_denom_lr
  double initial_denom_lr = 10;             ///< divisor of the first group's rate if `lr` is not given
  bool train_bn = true;                     ///< false: batch norms in the part stay frozen
};

namespace finetuning {

/// A parameter group that a callback has added to an optimizer during a run.
struct AddedGroup {
  std::size_t optimizer = 0;  ///< position among the model's optimizers
  std::size_t group = 0;      ///< position among its groups
  int epoch = 0;              ///< the epoch in which it was added
  double lr = 0;              ///< the learning rate with which it is restored
  int lr_epoch = 0;           ///< the epoch in which that rate was set
  std::vector<std::string> parameters = {};

  void state(auto& archive);
};

/// True if some group of the optimizer has the parameter.
template <class Backend, class Optimizer, class Parameter>
bool has(Optimizer& optimizer, Parameter const& parameter) {
  auto const& all = optimizer.parameters();
  return std::any_of(all.begin(), all.end(), [&](auto const& known) { return Backend::same(known, parameter); });
}

/// Makes a part trainable. Its parameters that the optimizer does not have yet become a new group, and are returned.
template <class Backend, class Part, class Optimizer>
auto unfreeze_and_add_param_group(Part& part, Optimizer& optimizer, UnfreezeOptions const& how = {}) {
  Backend::make_trainable(part);
  if (!how.train_bn) Backend::freeze_batch_norms(part);
  auto parameters = Backend::filter_params(part, true);
  std::erase_if(parameters, [&](auto const& parameter) { return has<Backend>(optimizer, parameter); });
  if (!parameters.empty()) optimizer.add_group(parameters, how.lr ? *how.lr : optimizer.lr(0) / how.initial_denom_lr);
  return parameters;
}

}  // namespace finetuning

/// Base of callbacks that unfreeze parts of a model by epoch. The derived class freezes parts, and decides what happens
/// in each epoch:
///
///     struct Thaw : BaseFinetuning<Thaw> {
///       void freeze_before_training(auto& ctx) { freeze(ctx.model().body); }
///       void finetune_function(int epoch, auto& optimizer, auto& ctx) {
///         if (epoch == 5) unfreeze_and_add_param_group(ctx.model().body, optimizer, ctx, {.lr = 1e-4});
///       }
///     };
///
/// A part is a module, or a holder of one; a layer of a torch::nn::Sequential is `*ctx.model().body[3]`, since
/// `body[3]` is a pointer. The last argument is an UnfreezeOptions, and may be left out: then the new group's rate is a
/// tenth of the first's. `finetune_function` is called at the start of each epoch, for each optimizer. Added groups are
/// saved by the names of their parameters; when a fit resumes from a file, on_fit_start adds the same groups again. If
/// a derived class defines a hook that this base defines, its hook must call the base's.
template <class Self>
class BaseFinetuning {
 public:
  using Hooks = Implements<hook::setup, hook::on_fit_start, hook::on_train_start, hook::on_train_epoch_start,
                           hook::on_exception, hook::teardown>;
  static constexpr Order order = Order::tuner;  ///< it sets learning rates, which other callbacks report
  static constexpr std::string_view reads = "learning rates",
                                    writes = "requires_grad, parameter groups, learning rates";

  void setup(auto& ctx) {
    if (ctx.stage() != Stage::fit) return;
    groups_.clear();
    restored_ = false;  // a fit that resumes loads its state after this
    self().freeze_before_training(ctx);
  }
  void on_fit_start(auto& ctx) { restore_groups(ctx); }
  void on_train_start() { training_ = true; }
  void on_exception() { training_ = false; }
  void teardown(auto&) { training_ = false; }
  void on_train_epoch_start(auto& ctx) {
    ctx.each_optimizer([&](std::size_t at, auto& optimizer) {
      position_ = at;
      self().finetune_function(ctx.current_epoch(), optimizer, ctx);
    });
  }

  /// The groups that were added in this fit, in order.
  std::vector<finetuning::AddedGroup> const& added_groups() const { return groups_; }

  /// Adds the groups of a loaded state to the optimizers, once. Does nothing without such a state.
  void restore_groups(auto& ctx) {
    using Backend = typename std::remove_cvref_t<decltype(ctx)>::Backend;
    if (!std::exchange(restored_, false)) return;
    auto const named = Backend::named_parameters(ctx.model());
    ctx.each_optimizer([&](std::size_t at, auto& optimizer) {
      for (auto const& group : groups_) {
        if (group.optimizer != at) continue;
        std::vector<typename Backend::Value> parameters, frozen;
        for (auto const& name : group.parameters) {
          auto const found =
              std::find_if(named.begin(), named.end(), [&](auto const& entry) { return entry.first == name; });
          if (found == named.end())
            throw Error("fulgurite.callback.finetuning_parameter",
                        "the saved run trained '" + name +
                            "' in a group of its own, and this model has no such parameter: resume with the model that "
                            "was saved");
          if (!found->second.requires_grad()) frozen.push_back(found->second);
          found->second.set_requires_grad(true);
          parameters.push_back(found->second);
        }
        optimizer.add_group(parameters, group.lr);
        // Whether they train is what hooks had switched in the saved run, which is loaded later.
        for (auto& parameter : frozen) parameter.set_requires_grad(false);
      }
    });
  }

  /// Saves or loads. A state that is loaded during training is a rollback of the same fit: the optimizers have their
  /// groups already.
  void state(auto& archive) {
    archive("groups", groups_);
    if constexpr (std::remove_cvref_t<decltype(archive)>::loading) restored_ = !training_;
  }

 protected:
  /// The position of the optimizer for which `finetune_function` is called.
  std::size_t position() const { return position_; }
  bool restored() const { return restored_; }
  std::vector<finetuning::AddedGroup>& groups() { return groups_; }

  /// Makes a part trainable, adds it to the optimizer as a new group, and records the group. Call it in
  /// `finetune_function`. If the optimizer has all of the part's parameters already, no group is added.
  void unfreeze_and_add_param_group(auto& part, auto& optimizer, auto& ctx, UnfreezeOptions const& how = {}) {
    using Backend = typename std::remove_cvref_t<decltype(ctx)>::Backend;
    auto const added = finetuning::unfreeze_and_add_param_group<Backend>(part, optimizer, how);
    if (added.empty()) return;
    std::size_t const group = optimizer.groups() - 1;
    finetuning::AddedGroup record{position_, group, ctx.current_epoch(), optimizer.lr(group), ctx.current_epoch()};
    auto const named = Backend::named_parameters(ctx.model());
    for (auto const& parameter : added)
      for (auto const& [name, known] : named)
        if (Backend::same(known, parameter)) record.parameters.push_back(name);
    groups_.push_back(std::move(record));
  }

 private:
  Self& self() { return static_cast<Self&>(*this); }

  std::vector<finetuning::AddedGroup> groups_{};
  std::size_t position_ = 0;
  bool restored_ = false;
  bool training_ = false;
};

/// Options of BackboneFinetuning: when the backbone begins to train, and how its learning rate grows to the head's.
struct BackboneFinetuningOptions {
  /// The epoch, counted from 0, at whose start the backbone begins to train.
  int unfreeze_backbone_at_epoch = 10;
  /// Returns the factor by which the backbone's rate is multiplied at the start of each later epoch; called with the
  /// epoch's number + 1. 2.0 doubles the rate each time, 1.1 adds a tenth, and 1.0 keeps it.
  std::function<double(int)> lambda_func = [](int) { return 2.0; };
  double backbone_initial_ratio_lr = 0.1;                    ///< the backbone's first rate, relative to the head's
  std::optional<double> backbone_initial_lr = std::nullopt;  ///< the backbone's first rate, instead of the ratio
  bool should_align = true;                                  ///< limits the backbone's rate to the head's
  bool train_bn = true;  ///< batch norms of the backbone train from the start; false: they never train, and their
                         ///< statistics do not change
  bool verbose = false;  ///< print both rates to stderr at each epoch
};

/// Trains the head of a model first, and its backbone from a later epoch on:
/// `BackboneFinetuning{{.unfreeze_backbone_at_epoch = 5}}`. The model needs a member `backbone`. Pass its (first)
/// optimizer the parameters that train from the start, `head->parameters()` or `filter_params(*this)`; the backbone
/// becomes a further parameter group of that optimizer. The optimizer's schedule does not change this group's rate.
/// `lambda_func` changes it, starting from the current rate, which a LearningRateFinder may have set. If there is a
/// StochasticWeightAveraging, it sets the rate from its start epoch on.
class BackboneFinetuning : public BaseFinetuning<BackboneFinetuning> {
  using Base = BaseFinetuning<BackboneFinetuning>;

 public:
  static constexpr bool needs_backbone = true;  ///< a model without a member of that name is refused

  explicit BackboneFinetuning(BackboneFinetuningOptions options = {});
  FULGURITE_NAMED_OPTIONS(BackboneFinetuning);

  void state(auto& archive);

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
               epoch > group.lr_epoch) {             // when a fit resumes in this epoch, the rate is set already
      double const now = optimizer.lr(group.group);  // a search may have found another rate than this callback has set
      double const next = options_.lambda_func(epoch + 1) * now;
      group.lr = options_.should_align ? std::min(next, head) : next;
      group.lr_epoch = epoch;
      optimizer.set_lr(group.group, group.lr);
    }
    if (options_.verbose && ctx.rank() == 0 && !groups().empty())
      print_lines(stderr, "BackboneFinetuning: epoch " + std::to_string(epoch) + ", head's rate " + exact_number(head) +
                              ", backbone's " + exact_number(groups().front().lr) + "\n");
  }

 private:
  // Does nothing for a model without a backbone, which the trainer refuses with a sentence of its own.
  static void with_backbone(auto& ctx, auto&& f) {
    if constexpr (requires { ctx.model().backbone; }) f(ctx.model().backbone);
  }
  [[noreturn]] void refuse_optimizer() const;

  BackboneFinetuningOptions options_;
};

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/callback/backbone_finetuning.ipp>
#endif
