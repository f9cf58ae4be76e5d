#pragma once
// How a fit resumes from a file or a snapshot: whether that fits the program, and how it is loaded: all of it or
// nothing.

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

// Whether the loaders of a program can go on where those of a file were, found out before training starts.

/// Inside an epoch each rank has trained on its share of the batches so far; other shares of the rest would train on
/// some samples twice and never on others.
[[noreturn]] void refuse_other_shares(long consumed, long then, long now);

/// One line: where training continues.
void print_start(RunCore const& run, std::string const& file);
/// Warns where nothing more is trained, though no limit says so; whether it did.
bool warn_if_finished(RunCore& run);

/// The epoch of the file is shared out between as many ranks as here, and the batch at which it resumes is one of the
/// `batches` that training has, where it is known how many.
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

/// Loads what loaders keep, and puts them back: hooks are still to be heard before they are set to their place.
template <class R, class Source, class RunFile>
void try_loaders(State<R>& run, Source& source, RunFile const& file) {
  typename R::Backend::RunFile::Memory before;
  auto const fold = [&](auto& archive) { fold_loaders(run, source, archive); };
  before.save(fold);
  file.load(fold);
  before.put_back(fold);
}

/// Loads one file in three parts. Weights and what the model, the data module and the callbacks keep are there before
/// the optimizers are made, and these before training starts; what hooks did to them on the way is undone when the
/// first batch is due, and random numbers go on as they were. A file that does not fit leaves everything as it was.
/// `RunFile`: where it is loaded from, which may be a snapshot in memory.
template <class R, class Pack, class Source, class RunFile>
class Resumption {
  using Saver = typename R::Backend::RunFile::Saver;
  /// A data module makes them after hooks have been heard, and a callback that has searched sets the size it found.
  static constexpr bool loaders_change = any_searches<Pack> || requires(Source& source) { source.reload_training(); };

 public:
  Resumption(State<R>& run, Pack& pack, Source& source, std::shared_ptr<RunFile const> file)
      : run_(run), pack_(pack), source_(source), file_(std::move(file)), before_(run, source) {}

  /// After setup and configure_model. The model's parameters are written in place.
  void load_model() {
    if constexpr (is_snapshot<RunFile> && data_has_state<R, Source, Saver>)
      if (!file_->left())
        throw Error(
            "fulgurite.resume.snapshot",
            "this fit has a loader or a data module that keeps its place by a state, and the snapshot was taken "
            "when no fit had ended with such: go on from a file, or take the snapshot after the fit");
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

  /// When the optimizers are there: a file that did not fit so far is refused, with what else of it does not. Loaders
  /// that were given are there, too; `open()` prepares them, `count()` says how many batches training has, where that
  /// is known.
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

  /// After on_fit_start, when the optimizers are there. What comes last is tried now, so that nearly all of the file is
  /// known to fit before training starts.
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

  /// When the loaders are what they will be, before on_train_start: what the file holds of them fits, and they are long
  /// enough, where it is known how many `batches` training has: under several ranks fewer than a loader may have.
  void refuse_unfit_loaders(std::optional<long> batches) {
    or_put_back([&] {
      refuse_unfit_data(run_, *file_, batches);
      if constexpr (loaders_have_state<Source, Saver> && loaders_change) try_loaders(run_, source_, *file_);
    });
  }

  /// After on_train_start, when the loaders are there, too: everything, as it was saved. Then `find_place()`, which
  /// refuses a loader that only its end shows not to be long enough. Where one of them fails, no loader and no random
  /// number has moved.
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

  /// After that, when the weights are those in training: inside an epoch that had been cut short nothing is left of
  /// what hooks did at its end.
  void go_back_if_reopened() {
    if (reopened_) or_put_back([&] { go_back_before_cut(run_, pack_); });
  }

  /// For a run that has nothing left to train: the random numbers after this fit are those that came after the fit of
  /// the file.
  void load_random() {
    auto random = R::Backend::rng_state();
    file_->load([&](auto& archive) { archive.child("random", random); });
    random.restore();
  }
  /// For such a run: loads what its loaders keep. The loaders have to be there.
  void load_data() {
    or_put_back([&] { file_->load([&](auto& archive) { fold_loaders(run_, source_, archive); }); });
  }

 private:
  /// An optimizer that saves nothing would begin anew, with other steps than those of the run that was stopped.
  void refuse_forgetful() {
    if constexpr (!optimizers_resume<R, Saver>)
      throw Error("fulgurite.resume.optimizer",
                  "an optimizer has no state(archive), so the run cannot go on: give it one that saves its moments");
  }

  /// What does not fit is told when all of it is known. Anything else that goes wrong ends the fit now.
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

  /// Throws what does not fit with the parts of the program before it that are not those of the file.
  void tell_of_difference(Error const& error) {
    auto const fold = [&](auto& archive) { fold_assembly(run_, archive); };
    if constexpr (requires { file_->difference(*run_.parts.model, fold); }) {
      if (error.identifier().starts_with("fulgurite.resume.")) return;  // of limits and data, not of parts
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
