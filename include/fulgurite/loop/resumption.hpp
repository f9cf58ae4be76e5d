#pragma once
// How a fit resumes from a file or a snapshot: checks that it fits the program, and loads all of it or nothing.

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/loop/checkpoint_files.hpp>
#include <fulgurite/loop/found_checkpoints.hpp>
#include <fulgurite/loop/frame.hpp>
#include <fulgurite/loop/kept_run.hpp>
#include <fulgurite/loop/loader_state.hpp>
#include <fulgurite/loop/non_finite.hpp>
#include <fulgurite/loop/rehearsal.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/run_position.hpp>
#include <fulgurite/loop/run_state.hpp>
#include <fulgurite/loop/tell.hpp>
#include <fulgurite/loop/validation_timing.hpp>
#include <fulgurite/loop/whole_run.hpp>

namespace fulgurite::loop {

// Checks before training that the program's loaders can continue where those of the file were.

/// Throws [fulgurite.resume.ranks]. Inside an epoch each rank has trained on its part of the batches so far; with other
/// parts of the rest, some samples would be used twice and others never.
[[noreturn]] void refuse_other_shares(long consumed, long then, long now);

/// Prints the line that says where training continues.
void print_start(RunCore const& run, std::string const& file);
/// Warns if nothing more is trained because of a stop request in the file; returns true if so.
bool warn_if_finished(RunCore& run);

/// Throws if the file's epoch was distributed over a different number of ranks, or if the batch at which it resumes is
/// not one of the `batches` of training, if that number is known.
template <class R, class RunFile>
void refuse_unfit_data(State<R>& run, RunFile const& file, std::optional<long> batches) {
  Progress progress;
  SafePoint point;
  bool stop = false;
  long const here_shared = shares_of_data(run);
  long shared = here_shared;
  file.load([&](auto& archive) {
    if (!lacks(archive, "progress")) archive.child("progress", progress);
    if (!lacks(archive, "point")) archive("point", point)("stop", stop);
    if (!lacks(archive, "shares_of_epoch")) archive("shares_of_epoch", shared);
  });
  auto const here = std::exchange(run.progress, progress);
  bool const stops_here = std::exchange(run.due.stop.holds, stop || run.due.stop.holds);
  reopen_epoch(run, point);
  bool const asks = asks_for_batches(run, point);
  progress = std::exchange(run.progress, here);
  run.due.stop.holds = stops_here;
  if (!asks || progress.batch == 0) return;
  if (shared != here_shared) refuse_other_shares(progress.batch, shared, here_shared);
  if (batches && progress.batch >= *batches) refuse_short(progress.batch, *batches);
}

/// Checks that the saved state of the loaders can be loaded, then restores them: hooks must run before the loaders are
/// set to their positions.
template <class R, class Source, class RunFile>
void try_loaders(State<R>& run, Source& source, RunFile const& file) {
  typename R::Backend::RunFile::Memory before;
  auto const fold = [&](auto& archive) { fold_loaders(run, source, archive); };
  before.save(fold);
  file.load(fold);
  before.put_back(fold);
}

/// Loads one file in three parts. Weights and the state of model, data module and callbacks are loaded before the
/// optimizers are made, and the optimizers' state before training starts. What hooks change in between is undone when
/// the first batch begins, and the random state continues as saved. A file that does not fit leaves everything
/// unchanged. `RunFile`: the source, which may be a snapshot in memory.
template <class R, class Pack, class Source, class RunFile>
class Resumption {
  using Saver = typename R::Backend::RunFile::Saver;
  /// True if loaders may change: a data module makes them after hooks have run, or a callback that searches sets
  /// another batch size.
  static constexpr bool loaders_change = any_searches<Pack> || requires(Source& source) { source.reload_training(); };

 public:
  Resumption(State<R>& run, Pack& pack, Source& source, std::shared_ptr<RunFile const> file)
      : run_(run), pack_(pack), source_(source), file_(std::move(file)), before_(run, source) {}

  /// Called after setup and configure_model. The model's parameters are overwritten in place.
  void load_model() {
    if constexpr (is_snapshot<RunFile> && data_has_state<R, Source, Saver>)
      if (!file_->left())
        throw Error(
            "fulgurite.resume.snapshot",
            "this fit has a loader or a data module that keeps its place by a state, and the snapshot was taken "
            "when no fit had ended with such: resume from a file, or take the snapshot after the fit");
    before_.keep_model();
    note([&] { file_->load_weights(*run_.parts.model); });
    note([&] {
      file_->load([&](auto& archive) { fold_model(run_, source_, archive); });
      auto const& most = run_.asked.options.max_epochs;
      if (most && *most >= 0 && run_.progress.epoch > *most)
        throw Error("fulgurite.resume.max_epochs", "the file is of a run of " + std::to_string(run_.progress.epoch) +
                                                       " epochs, and max_epochs = " + std::to_string(*most) +
                                                       ": raise it, or take an earlier file");
    });
    if (!problems_.empty()) before_.put_back();
  }

  /// Called when the optimizers exist. Throws everything that does not fit in one Error. Loaders that were given to fit
  /// are also checked: `open()` prepares them, `count()` returns the number of training batches, if known.
  template <class OpenLoaders, class Count>
  void refuse_unfit([[maybe_unused]] OpenLoaders&& open, [[maybe_unused]] Count&& count) {
    before_.keep_training();
    if constexpr (!loaders_change)
      if (!run_.asked.options.limit_train_batches.none()) note([&] { refuse_unfit_data(run_, *file_, count()); });
    if constexpr (loaders_have_state<Source, Saver> && !loaders_change)
      note([&] {
        open();
        try_loaders(run_, source_, *file_);
      });
    if (problems_.empty()) return;
    note([&] { file_->load([&](auto& archive) { fold_training(run_, archive); }); });
    before_.put_back();
    auto const all = all_of(problems_);
    tell_of_difference(all);
    throw all;
  }

  /// Called after on_fit_start, when the optimizers exist. Also tries to load the random state, so that nearly all of
  /// the file is known to fit before training starts.
  void load_training() {
    refuse_forgetful();
    or_put_back([&] {
      file_->load([&](auto& archive) {
        fold_model(run_, source_, archive);
        fold_training(run_, archive);
        auto random = R::Backend::rng_state();
        archive.child("random", random);
      });
    });
  }

  /// Called before on_train_start, when the loaders are final: checks that the file's state fits them and that they are
  /// long enough. `batches`: the number of training batches, if known; with several ranks it may be less than a loader
  /// has.
  void refuse_unfit_loaders(std::optional<long> batches) {
    or_put_back([&] {
      refuse_unfit_data(run_, *file_, batches);
      if constexpr (loaders_have_state<Source, Saver> && loaders_change) try_loaders(run_, source_, *file_);
    });
  }

  /// Called after on_train_start, when the loaders exist: loads everything as it was saved. Then calls `find_place()`,
  /// which throws for a loader that turns out to be too short. If one of them fails, loaders and random state are
  /// unchanged.
  template <class FindPlace>
  void load_all(FindPlace&& find_place) {
    auto random = R::Backend::rng_state();
    typename R::Backend::RunFile::Memory loader;
    loader.save([&](auto& archive) { fold_loader(run_, source_, archive); });
    or_put_back([&] {
      file_->load_weights(*run_.parts.model);
      file_->load_whole([&](auto& archive) {
        fold_assembly(run_, archive);
        fold_everything(run_, source_, archive);
      });
      take_own_part(run_, source_);
      reopened_ = reopen_epoch(run_);
      try {
        find_place();
      } catch (...) {
        loader.put_back([&](auto& archive) { fold_loader(run_, source_, archive); });
        random.restore();
        throw;
      }
    });
  }

  /// Called after load_all, when the training weights are in place: if the run resumes inside an epoch that had been
  /// cut short, undoes what hooks did at its end.
  void go_back_if_reopened() {
    if (reopened_) or_put_back([&] { go_back_before_cut(run_, pack_); });
  }

  /// For a run that has nothing left to train: restores the random state that the file's fit ended with.
  void load_random() {
    auto random = R::Backend::rng_state();
    file_->load([&](auto& archive) { archive.child("random", random); });
    random.restore();
  }
  /// For such a run: loads the state of its loaders, which must exist.
  void load_data() {
    or_put_back([&] { file_->load([&](auto& archive) { fold_loaders(run_, source_, archive); }); });
  }

 private:
  /// Throws [fulgurite.resume.optimizer] for an optimizer that saves nothing: it would start from zero, and make other
  /// steps than the stopped run.
  void refuse_forgetful() {
    if constexpr (!optimizers_resume<R, Saver>)
      throw Error("fulgurite.resume.optimizer",
                  "an optimizer has no state(archive), so the run cannot be resumed: give it one that saves its "
                  "moments");
  }

  /// Collects errors of parts that do not fit, to throw them together. Any other exception ends the fit at once.
  template <class Load>
  void note(Load&& load) {
    try {
      load();
    } catch (Error const& error) { problems_.push_back(error); } catch (...) {
      before_.put_back();
      throw;
    }
  }
  template <class Load>
  void or_put_back(Load&& load) {
    try {
      load();
    } catch (Error const& error) {
      before_.put_back();
      tell_of_difference(error);
      throw;
    } catch (...) {
      before_.put_back();
      throw;
    }
  }

  /// Throws the error again with a list of the parts that differ between program and file; does nothing if none differ.
  void tell_of_difference(Error const& error) {
    auto const fold = [&](auto& archive) { fold_assembly(run_, archive); };
    if constexpr (requires { file_->difference(*run_.parts.model, fold); }) {
      if (error.identifier().starts_with("fulgurite.resume.")) return;  // it is about limits or data, not parts
      auto const parts = file_->difference(*run_.parts.model, fold);
      if (parts.empty()) return;
      auto const said = std::string(error.what()).substr(error.identifier().size() + 3);
      throw Error(error.identifier(), parts + ". What does not fit: " + said);
    }
  }

  State<R>& run_;
  Pack& pack_;
  Source& source_;
  std::shared_ptr<RunFile const> file_;
  BeforeResuming<R, Source> before_;
  std::vector<Error> problems_{};
  bool reopened_ = false;
};

}  // namespace fulgurite::loop

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/loop/resumption.ipp>
#endif
