#pragma once
// The state of a trainer in memory, to go back to and to go on from.

#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include <fulgurite/concept/data.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/loop/ckpt_path.hpp>
#include <fulgurite/loop/data_source.hpp>
#include <fulgurite/loop/kept_weights.hpp>
#include <fulgurite/loop/loader_state.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/whole_run.hpp>

namespace fulgurite {

/// What snapshot(trainer) returns: all that a checkpoint file of this moment would hold. R: the key of its run. Copies
/// share what is kept, and nothing changes it. Tensors are kept on their devices, neighbours in memory as one.
template <class R>
class Snapshot {
  using Memory = typename R::Backend::RunFile::Memory;

 public:
  using Run = R;

  /// What the loaders and the data module of a fit that is over have kept of themselves.
  using Left = decltype(loop::State<R>::left);

  /// fold(archive) saves what is no weight.
  template <class Fold>
  Snapshot(typename R::Model& model, Fold&& fold, Left left = std::nullopt) {
    auto kept = std::make_shared<Kept>();
    kept->left = std::move(left);
    kept->weights.keep_named(model);
    kept->state.save(fold);
    kept_ = std::move(kept);
  }

  /// An Error where the model is built otherwise than the one that was kept.
  void require_like(typename R::Model& model) const {
    if (auto const other = kept_->weights.difference(model); !other.empty())
      throw Error("fulgurite.resume.snapshot", "the snapshot is of a model that was built differently: " + other +
                                                   "; restore it into a model like "
                                                   "the one that it was taken of");
  }
  /// Into a model built as the one that was kept; an Error where it is another, which stays as it is.
  void load_weights(typename R::Model& model) const {
    require_like(model);
    kept_->weights.put_back(model);
  }
  /// All of the state that fold(archive) visits, or nothing.
  template <class Fold>
  void load(Fold&& fold) const {
    kept_->state.load(fold);
  }
  template <class Fold>
  void load_whole(Fold&& fold) const {
    load(fold);
  }
  Left const& left() const { return kept_->left; }

  /// Back into the run that it was taken of, whose parts have stayed what they were: nothing is compared, and nothing
  /// is kept for a failure.
  template <class Fold>
  void put_back(typename R::Model& model, Fold&& fold) const {
    kept_->weights.put_back(model);
    kept_->state.put_back(fold);
  }

 private:
  struct Kept {
    loop::KeptWeights<R> weights{};
    Memory state{};
    Left left{};
  };
  std::shared_ptr<Kept const> kept_;
};

namespace loop {

/// An Error where the run is not one between two fits.
template <class R>
void refuse_open(State<R> const& run, std::string const& what) {
  if (run.loading.fit_is_open)
    throw Error("fulgurite.trainer.open_fit", what + " inside of a fit, which goes on by what it has: do so before or "
                                                     "after it");
}
template <class R>
void between_fits(State<R> const& run, std::string const& what) {
  refuse_open(run, what);
  if (!run.parts.fitted || !run.parts.optimizers)
    throw Error("fulgurite.trainer.nothing_to_save", what + ": there is no run yet, so call fit first");
}

/// What a file would hold now, in memory. Weights and callbacks are kept as they are: no before_save is called.
template <class R, class Pack>
Snapshot<R> take_snapshot(State<R>& run, Pack& pack, NoModule& none) {
  between_fits(run, "snapshot(trainer)");
  FittedModel const fitted(run);
  auto const taken = [&](auto data) {
    return Snapshot<R>(*run.parts.model, [&](auto& archive) { fold_everything(run, pack, data, archive); }, run.left);
  };
  if (run.left) return taken(LeftData<R>{{none, none}, *run.left});
  return taken(GivenLoaders<NoModule, NoModule>{none, none});
}

/// Puts everything back to that time. Where it does not fit, nothing changes.
template <class R, class Pack>
void restore_snapshot(State<R>& run, Pack& pack, NoModule& none, Snapshot<R> const& from) {
  between_fits(run, "restore(trainer, snapshot)");
  FittedModel const fitted(run);
  GivenLoaders<NoModule, NoModule> no_loaders{none, none};
  from.require_like(*run.parts.model);
  from.load([&](auto& archive) { fold_everything(run, pack, no_loaders, archive); });
  from.load_weights(*run.parts.model);
  run.left = from.left();
}

}  // namespace loop

/// What a checkpoint file of a trainer would hold now, copied in memory: weights, buffers, optimizers, schedules,
/// callbacks, counters, random numbers, and what the loaders and the data module of the last fit have kept at its end.
/// Between fits; inside of one ctx.request_checkpoint writes files. It takes the size of the model and its optimizers
/// once more, on their devices.
///   auto const before = snapshot(trainer);
///   trainer.fit(net, other_data);
///   restore(trainer, before);                  // the model of the last fit and the trainer are as they were; not data
///   trainer.fit(net, data, before);            // goes on as from a file: where its limits are raised, it trains on
template <class Trainer>
auto snapshot(Trainer& trainer) {
  return trainer.snapshot();
}

/// Puts a trainer, and the model of its last fit, back to a snapshot of a trainer of the same model and policies. One
/// that does not fit changes nothing. Loaders and data modules stay as they are: a trainer borrows them for one call,
/// and they may be gone. `fit(net, data, snapshot)` gives to its own what those of that time kept.
template <class Trainer, class From>
  requires requires(Trainer& trainer, From const& from) { trainer.restore(from); }
void restore(Trainer& trainer, From const& from) {
  trainer.restore(from);
}

}  // namespace fulgurite
