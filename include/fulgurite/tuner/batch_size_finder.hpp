#pragma once
// Finds a batch size when a fit starts, and again at milestones.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/state.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/trainer.hpp>
#include <fulgurite/tuner/learning_rate_finder.hpp>
#include <fulgurite/tuner/size_trials.hpp>

namespace fulgurite {

/// The search of a BatchSizeFinder, and the epochs before which it searches again.
template <class Model, class Data = NoModule>
struct BatchSizeFinderOptions {
  /// The sizes to try, and how many steps each; see tune::BatchSizeSearch.
  tune::BatchSizeSearch<Model, Data> search = {};
  std::vector<int> milestones = {};  ///< epochs before which it searches again, such as those that unfreeze layers
};

/// A callback that finds a batch size when the fit starts:
///
///     BatchSizeFinder<Net>{{.search = {.mode = tune::binsearch}, .milestones = {5, 10}}}
///
/// It runs trial steps with several sizes (see tune::scale_batch_size), restores all state, and continues with the
/// largest size that fits. The size is set in the loader or data module if that has set_batch_size. Otherwise it is set
/// in a field of the model, `.field = &Net::batch_size`, or of the data module, `BatchSizeFinder<Net, Data>` and
/// `.field = &Data::batch_size`, and the loaders are made again. It does the same at each milestone, for the epochs
/// that follow. validate, test and predict begin with a search over their own batches, which does not change the fit's
/// size in a file; if they have no place for a size, there is a warning and no search.
///
/// A fit that resumes from a file uses the size that was found before. A schedule that was made from
/// `ctx.estimated_steps()` keeps the number of steps that it was made with. To search at other times, derive from this
/// class, hide its hooks, and call `scale_batch_size(ctx)` from yours.
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

  /// The result of the last search; without trials if there was none.
  tune::FoundBatchSize const& results() const { return found_; }

  void state(auto& archive) { archive("size", size_).option("milestones", options_.milestones); }

 protected:
  /// Requests a search at the next boundary between two epochs. In an evaluation the search takes place before the
  /// first batch, and can be requested in `setup` only.
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
  long size_ = 0;  ///< found in this fit, or in the one that it resumes
};

}  // namespace fulgurite

namespace fulgurite::tune {

/// The steps to try: those of training, or of one kind of evaluation.
enum class Method : std::uint8_t { fit, validate, test, predict };
using enum Method;

/// The number of loaders for these steps.
template <Method Tried, class Data>
consteval std::size_t loaders_of() {
  using D = std::remove_const_t<Data>;
  if constexpr (Tried == fit || LoaderLike<Data>) return 1;
  else if constexpr (loop::is_tuple<D>) return std::tuple_size_v<D>;
  else {
    using Hook = std::conditional_t<Tried == validate, hook::val_dataloader,
                                    std::conditional_t<Tried == test, hook::test_dataloader, hook::predict_dataloader>>;
    using Source = loop::ModuleLoaders<Data, true>;
    if constexpr (!Source::template evaluates<Hook>) return 1;  // refused elsewhere
    else return std::tuple_size_v<decltype(std::declval<Source&>().template evaluation<Hook>())>;
  }
}

/// The options of the search, for loaders passed directly, by a data module, or by the model.
template <class Trainer, class Data>
using BatchSizeSearchOf =
    BatchSizeSearch<ModelOf<Trainer>, std::conditional_t<std::is_const_v<Data>, NoModule, std::remove_const_t<Data>>>;

/// Finds the largest batch size that fits into memory. Each size is tried with a few steps of the real trainer, until
/// memory runs out or a batch has all samples; then all state is restored, as tune::rehearse does. The size is set in
/// the loader or data module if that has set_batch_size, or else in `.field`, from which a data module or the model
/// makes its loaders. `scale_batch_size<tune::test>(...)` tries test_step with its loader; tune::validate and
/// tune::predict likewise. Call it between fits, in one process. In a fast_dev_run nothing is tried.
///
///     auto const found = tune::scale_batch_size(trainer, net, data, {.mode = tune::binsearch});
///     std::cout << found.table();              // for each size: time, samples per second, peak memory
///     found.save("sizes.csv"), found.save("sizes.svg");
///
/// Linux overcommits memory, and kills a process that uses too much of it. So on the CPU set .max_val, or a limit
/// (`ulimit -v`) that makes allocations throw. Errors: [fulgurite.tuner.out_of_memory] if no size fits,
/// [fulgurite.tuner.no_size] and others if no size can be set, and what the steps throw. After an error the size is
/// unchanged.
template <Method Tried = fit, class Trainer, class Data>
  requires(!is_batch_size_search<std::remove_const_t<Data>>)
FoundBatchSize scale_batch_size(Trainer& trainer, ModelOf<Trainer>& model, Data& data,
                                BatchSizeSearchOf<Trainer, Data> const& search = {}) {
  using R = typename Trainer::Run;
  using D = std::conditional_t<std::is_const_v<Data>, NoModule, std::remove_const_t<Data>>;
  using Rules = judge::NeedRules<R, loop::Optimizers<R>::count, BatchSizeFinder<ModelOf<Trainer>>>;
  static_cast<void>(Rules::template judge<true>());
  constexpr bool one = loaders_of<Tried, Data>() == 1, settable = !LoaderLike<Data> || SettableBatchSize<Data>;
  static_assert(one,
                "[fulgurite.tuner.one_eval_loader] batch sizes are tried on one evaluation loader: pass each alone");
  static_assert(settable,
                "[fulgurite.tuner.no_size] this loader's batch size cannot be set: give it `long batch_size() "
                "const` and `void set_batch_size(long)`, or pass a data module that makes it from a field, "
                ".field = &Data::batch_size");
  check(search);
  FoundBatchSize found;
  RunSearch<R> const what = [&](Rehearser<R>& rehearser) {
    SizeTrials<R, ModelOf<Trainer>, D> trials(rehearser, search);
    if (trainer.options().fast_dev_run == 0) found = trials.run();
    else found = {.size = trials.size(), .searched = false};
  };
  if constexpr (decltype(Rules::judge())::ok && one && settable) {
    if constexpr (Tried == fit) trainer.search(model, data, what);
    else if constexpr (Tried == validate) trainer.template search_evaluation<loop::Validation>(model, data, what);
    else if constexpr (Tried == test) trainer.template search_evaluation<loop::Testing>(model, data, what);
    else trainer.template search_evaluation<loop::Prediction>(model, data, what);
    // If the size is part of what model or data module save, the search has restored the old one.
    if (!found.searched) return found;
    if (search.field.is_given()) {
      if constexpr (!LoaderLike<Data>) search.field.put(model, data, found.size);
    } else if constexpr (SettableBatchSize<Data>) {
      loop::set_batch_size_of(data, found.size);
    }
  }
  return found;
}
/// For a model that has the loaders itself.
template <Method Tried = fit, class Trainer>
FoundBatchSize scale_batch_size(Trainer& trainer, ModelOf<Trainer>& model,
                                BatchSizeSearchOf<Trainer, ModelOf<Trainer>> const& search = {}) {
  return scale_batch_size<Tried>(trainer, model, model, search);
}

}  // namespace fulgurite::tune
