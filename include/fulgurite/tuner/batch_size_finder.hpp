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

namespace fulgurite::tune {

/// Whose batches are tried: of training, or of one kind of evaluation.
enum class Method : std::uint8_t { fit, validate, test, predict };
using enum Method;

/// How many loaders there are for it.
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

/// The search's options, where loaders are handed over as they are, or by a data module, or by the model.
template <class Trainer, class Data>
using BatchSizeSearchOf =
    BatchSizeSearch<ModelOf<Trainer>, std::conditional_t<std::is_const_v<Data>, NoModule, std::remove_const_t<Data>>>;

/// Tries batch sizes out, each with some steps of the real trainer, until memory ends or a batch has all samples; puts
/// everything back, as tune::rehearse does; and puts the largest size that fits where batch sizes are kept: in the
/// loader or the data module that has set_batch_size, or in `.field`, from which a data module or the model makes its
/// loaders. `scale_batch_size<tune::test>(...)` tries test_step and its loader; so with tune::validate, tune::predict.
/// Between fits, in one process. In a fast_dev_run nothing is tried.
///   auto const found = tune::scale_batch_size(trainer, net, data, {.mode = tune::binsearch});
///   std::cout << found.table();              // each size: time, samples a second, peak memory
///   found.save("sizes.csv"), found.save("sizes.svg");
/// Linux gives a process more memory than there is, and ends it when it is used: on the CPU say .max_val, or set a
/// limit (`ulimit -v`), so that there is an exception to be caught. Errors: [fulgurite.tuner.out_of_memory] where no
/// size fits, [fulgurite.tuner.no_size] and others where none can be set, what the steps throw. The size is then as it
/// was.
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
                "[fulgurite.tuner.no_size] this loader cannot be told a batch size: give it `long batch_size() "
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
    // Where the size is a part of what model or data module save, the search has put it back with the rest.
    if (!found.searched) return found;
    if (search.field.is_given()) {
      if constexpr (!LoaderLike<Data>) search.field.put(model, data, found.size);
    } else if constexpr (SettableBatchSize<Data>) {
      loop::set_batch_size_of(data, found.size);
    }
  }
  return found;
}
/// The model has the loaders itself.
template <Method Tried = fit, class Trainer>
FoundBatchSize scale_batch_size(Trainer& trainer, ModelOf<Trainer>& model,
                                BatchSizeSearchOf<Trainer, ModelOf<Trainer>> const& search = {}) {
  return scale_batch_size<Tried>(trainer, model, model, search);
}

}  // namespace fulgurite::tune
