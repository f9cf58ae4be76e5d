#pragma once
// Finds a batch size when a fit starts, and again at milestones.

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/state.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/tuner/milestones.hpp>
#include <fulgurite/tuner/size_target.hpp>
#include <fulgurite/tuner/size_trials.hpp>

namespace fulgurite {

/// What a BatchSizeFinder tries out, and when it does so again.
template <class Model, class Data = NoModule>
struct BatchSizeFinderOptions {
  /// How it searches: which sizes, how many steps each; see tune::BatchSizeSearch.
  tune::BatchSizeSearch<Model, Data> search = {};
  std::vector<int> milestones = {};  ///< epochs before which it searches again, such as those that unfreeze a part
};

/// `BatchSizeFinder<Net>{{.search = {.mode = tune::binsearch}, .milestones = {5, 10}}}`: when the fit starts, tries
/// batch sizes out (tune::scale_batch_size says how), puts everything back, and goes on with the largest that fits: of
/// the loader or the data module where these can be told, else in a field of the model, `.field = &Net::batch_size`, or
/// of the data module, `BatchSizeFinder<Net, Data>` and `.field = &Data::batch_size`, whose loaders are then asked for
/// anew. At a milestone the same, for the epochs from there on. validate, test and predict begin with a search over
/// batches of theirs, which leaves the size of the fit in the file; where there is no place for a size, with a warning
/// in its place.
///
/// A fit that goes on from a file takes the size that was found before. A schedule that was made of
/// `ctx.estimated_steps()` keeps the number of steps that it was made of. To search at other times derive from it, hide
/// its hooks, and call `scale_batch_size(ctx)` from yours.
template <class Model, class Data = NoModule>
class BatchSizeFinder {
 public:
  using Hooks = Implements<hook::setup, hook::on_fit_start, hook::on_train_epoch_start>;
  static constexpr Order order = Order::tuner;
  static constexpr bool searches = true, finds_batch_size = true, needs_single_process = true,
                        needs_one_eval_loader = true, inert_in_dev_run = true;
  static constexpr bool needs_data_module = !std::is_same_v<Data, NoModule>;
  static constexpr std::string_view writes = "the batch size of loaders, or the field of it";

  explicit BatchSizeFinder(BatchSizeFinderOptions<Model, Data> options = {}) : options_(std::move(options)) {
    tune::check(options_.search);
    tune::check_milestones("BatchSizeFinder", options_.milestones);
  }

  void setup(auto& ctx) {
    if (ctx.stage() == Stage::fit) size_ = 0;
    else scale_batch_size(ctx);
  }
  void on_fit_start(auto& ctx) {
    if (size_ == 0) return scale_batch_size(ctx);
    ctx.request_setting([this]<class R>(Rehearser<R>& rehearser) {
      tune::SizeTrials<R, Model, Data>(rehearser, options_.search).put(size_);
    });
  }
  void on_train_epoch_start(auto& ctx) {
    if (tune::is_milestone(ctx.current_epoch(), options_.milestones)) scale_batch_size(ctx);
  }

  /// What the last search found; without trials before.
  tune::FoundBatchSize const& results() const { return found_; }

  void state(auto& archive) { archive("size", size_).option("milestones", options_.milestones); }

 protected:
  /// Asks for a search at the next place between two epochs; in an evaluation, where it can be asked for in `setup`
  /// alone, before its first batch.
  void scale_batch_size(auto& ctx) {
    if (ctx.dev_run()) return;
    ctx.request_search([this]<class R>(Rehearser<R>& rehearser) {
      bool const in_fit = rehearser.context().stage() == Stage::fit;
      try {
        found_ = tune::SizeTrials<R, Model, Data>(rehearser, options_.search).run();
        if (in_fit) size_ = found_.size;
      } catch (tune::NoPlaceForSize const& why) {
        if (in_fit) throw;
        rehearser.context().warn_each(
            "fulgurite.tuner.not_searched",
            std::string("no batch size was searched for in an evaluation that has no place for one: ") + why.what());
      }
    });
  }

 private:
  BatchSizeFinderOptions<Model, Data> options_;
  tune::FoundBatchSize found_{};
  long size_ = 0;  ///< that was found in this fit, or in the one whose file it goes on from
};

}  // namespace fulgurite
