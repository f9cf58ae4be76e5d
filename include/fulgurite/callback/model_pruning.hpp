#pragma once
// Sets a share of the smallest weights to zero each epoch, and keeps them at zero.

#include <concepts>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/callback/pruning_masks.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/report/terminal.hpp>

namespace fulgurite {

/// A share, from 0 to 1, of the weights that are not pruned yet, or a function of the epoch that returns one. Integers
/// are not accepted, since torch.nn.utils.prune takes them as counts: write 0.5, or 1.0.
class PruningAmount {
 public:
  template <std::floating_point F>
  PruningAmount(F share) : of_epoch_([share](int) { return static_cast<double>(share); }), constant_(true) {}
  template <std::invocable<int> F>
  PruningAmount(F of_epoch) : of_epoch_(std::move(of_epoch)) {}

  double operator()(int epoch) const;
  bool constant() const { return constant_; }

 private:
  std::function<double(int)> of_epoch_;
  bool constant_ = false;
};

/// Options of ModelPruning: how much is pruned and when, which parameters, and what remains of it after the fit.
struct ModelPruningOptions {
  /// How much of the remaining weights is pruned each time: a share, or a function of the epoch that returns one.
  PruningAmount amount = 0.5;
  std::vector<std::string> parameters = {};  ///< full names, such as "in.weight"; empty: selected by parameter_names
  std::vector<std::string> parameter_names = {"weight", "bias"};  ///< the last parts of the names
  bool use_global_unstructured = true;  ///< prune the smallest weights over all parameters; false: of each tensor
  bool make_pruning_permanent =
      true;  ///< false: the masks are kept after the fit, and the next fit continues with them
  bool use_lottery_ticket_hypothesis =
      true;                              ///< after each pruning the remaining weights restart from their initial values
  bool prune_on_train_epoch_end = true;  ///< false: prune at the end of each validation
  bool verbose = false;                  ///< print to stderr how many weights are zero
};

/// Unstructured pruning by magnitude: `ModelPruning{{.amount = 0.3}}`. It repeats torch.nn.utils.prune.l1_unstructured
/// each epoch, each time on that share of the remaining weights. Pruned weights stay zero, in checkpoint files too, and
/// in an average that another callback puts into the model; their gradients are set to zero before clipping. Where a
/// batch has several steps, an optimizer with momentum moves them until its end. If a lottery ticket resets the weights
/// to their initial values, an average of the weights is not restarted.
class ModelPruning {
 public:
  using Hooks =
      Implements<hook::on_fit_start, hook::on_before_optimizer_step, hook::on_train_batch_end, hook::on_train_epoch_end,
                 hook::on_validation_start, hook::on_validation_end, hook::on_train_end, hook::teardown>;
  static constexpr Order order = Order::timer;  ///< after callbacks that put other weights into the model
  static constexpr bool reads_whole_model = true;
  static constexpr bool moves_weights = true;
  static constexpr std::string_view reads = "weights", writes = "weights, gradients";

  explicit ModelPruning(ModelPruningOptions options = {});
  FULGURITE_NAMED_OPTIONS(ModelPruning);

  void on_fit_start(auto& ctx) {
    auto const before = masks_ ? masks_.save() : std::exchange(restored_, {});
    ended_.clear();
    auto& masks = masks_.hold(
        made_for(ctx, {options_.parameters, options_.parameter_names, options_.use_lottery_ticket_hypothesis}));
    check(masks.names());
    if (!before.empty()) masks.load(before);
    masked_ = masks.masked();
    size_ = masks.size();
    masks.apply_to_weights();
  }
  void on_before_optimizer_step(auto& ctx) { masks_of(ctx).apply_to_gradients(); }
  // The update changes masked weights if the optimizer has a momentum from earlier steps.
  void on_train_batch_end(auto& ctx) {
    if (!ctx.accumulating()) masks_of(ctx).apply_to_weights();
  }
  void on_validation_start(auto& ctx) {
    if (ctx.stage() == Stage::fit) masks_of(ctx).apply_to_weights();
  }
  void on_train_epoch_end(auto& ctx) {
    masks_of(ctx).apply_to_weights();
    if (options_.prune_on_train_epoch_end) prune(ctx);
  }
  // Not in on_validation_epoch_end: the model may still hold an average then, and the weights in training are pruned.
  void on_validation_end(auto& ctx) {
    if (ctx.stage() == Stage::fit && !ctx.sanity_checking() && !options_.prune_on_train_epoch_end) prune(ctx);
  }
  void on_train_end(auto& ctx) { masks_of(ctx).apply_to_weights(); }
  /// Called by the trainer when an average is in the model, for a file or for the statistics of its batch norms.
  void before_save(auto& ctx) {
    if (masks_) masks_of(ctx).apply_to_weights();
  }
  void before_statistics_pass(auto& ctx) { masks_of(ctx).apply_to_weights(); }
  void teardown(auto& ctx) {
    if (ctx.stage() == Stage::fit && options_.make_pruning_permanent && masks_) keep_for_files();
  }

  /// The masked share of the chosen parameters' elements.
  double sparsity() const;
  std::size_t masked() const { return masked_; }

  void state(auto& archive);

 private:
  template <class Ctx>
  static auto made_for(Ctx& ctx, PruningChoice const& choice) {
    return Ctx::Backend::masks(ctx.model(), choice);
  }
  auto& masks_of(auto& ctx) const { return masks_.template as<decltype(made_for(ctx, {}))>(); }

  void prune(auto& ctx) {
    double const share = options_.amount(ctx.current_epoch());
    if (share == 0) return;
    auto& masks = masks_of(ctx);
    masks.prune(share, options_.use_global_unstructured);
    if (options_.use_lottery_ticket_hypothesis) masks.rewind();
    masks.apply_to_weights();
    masked_ = masks.masked();
    if (options_.verbose && ctx.rank() == 0)
      print_lines(stderr, "ModelPruning: epoch " + std::to_string(ctx.current_epoch()) + ", " +
                              std::to_string(masked_) + " of " + std::to_string(size_) + " weights are zero (" +
                              report::formatted("%.2f", 100 * sparsity()) + " %)\n");
  }

  /// Frees the masks, and what they hold on a device.
  void keep_for_files();
  /// `names`: the names of the pruned parameters.
  void check(std::vector<std::string> const& names) const;

  ModelPruningOptions options_;
  HeldMasks masks_{};
  std::vector<SavedMask> restored_{};  ///< a loaded state, until the model exists
  std::vector<SavedMask> ended_{};     ///< permanent masks of a fit that has ended, for a file that continues it
  std::size_t masked_ = 0, size_ = 0;
};

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/callback/model_pruning.ipp>
#endif
