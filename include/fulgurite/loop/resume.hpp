#pragma once
// A fit that goes on from a file: what of it is loaded when, and what is refused before training starts.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fulgurite/core/all_errors.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/loop/assembly.hpp>
#include <fulgurite/loop/before_resuming.hpp>
#include <fulgurite/loop/ckpt_path.hpp>
#include <fulgurite/loop/loader_state.hpp>
#include <fulgurite/loop/reopened_epoch.hpp>
#include <fulgurite/loop/resumed_loaders.hpp>
#include <fulgurite/loop/starting_file.hpp>
#include <fulgurite/loop/tried_out.hpp>
#include <fulgurite/loop/whole_run.hpp>

namespace fulgurite::loop {

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
  Resumption(State<R>& run, Pack& pack, Source& source, RunFile file)
      : run_(run), pack_(pack), source_(source), file_(std::move(file)), before_(run, pack, source) {}

  /// After setup and configure_model. The model's parameters are written in place.
  void load_model() {
    if constexpr (is_snapshot<RunFile> && data_has_state<R, Source, Saver>)
      if (!file_.left())
        throw Error(
            "fulgurite.resume.snapshot",
            "this fit has a loader or a data module that keeps its place by a state, and the snapshot was taken "
            "when no fit had ended with such: go on from a file, or take the snapshot after the fit");
    before_.keep_model();
    note([&] { file_.load_weights(*run_.parts.model); });
    note([&] {
      file_.load([&](auto& archive) { fold_model(run_, pack_, source_, archive); });
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
      if (!run_.asked.options.limit_train_batches.none()) note([&] { refuse_unfit_data(run_, file_, count()); });
    if constexpr (loaders_have_state<Source, Saver> && !loaders_change)
      note([&] {
        open();
        try_loaders(run_, source_, file_);
      });
    if (problems_.empty()) return;
    note([&] { file_.load([&](auto& archive) { fold_training(run_, archive); }); });
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
      file_.load([&](auto& archive) {
        fold_model(run_, pack_, source_, archive);
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
      refuse_unfit_data(run_, file_, batches);
      if constexpr (loaders_have_state<Source, Saver> && loaders_change) try_loaders(run_, source_, file_);
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
      file_.load_weights(*run_.parts.model);
      file_.load_whole([&](auto& archive) {
        fold_assembly(run_, pack_, archive);
        fold_everything(run_, pack_, source_, archive);
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
    file_.load([&](auto& archive) { archive.child("random", random); });
    random.restore();
  }
  /// For such a run: loads what its loaders keep. The loaders have to be there.
  void load_data() {
    or_put_back([&] { file_.load([&](auto& archive) { fold_loaders(run_, source_, archive); }); });
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
    auto const fold = [&](auto& archive) { fold_assembly(run_, pack_, archive); };
    if constexpr (requires { file_.difference(*run_.parts.model, fold); }) {
      if (error.identifier().starts_with("fulgurite.resume.")) return;  // of limits and data, not of parts
      auto const parts = file_.difference(*run_.parts.model, fold);
      if (parts.empty()) return;
      auto const said = std::string(error.what()).substr(error.identifier().size() + 3);
      throw Error(error.identifier(), parts + ". What does not fit: " + said);
    }
  }

  State<R>& run_;
  Pack& pack_;
  Source& source_;
  RunFile file_;
  BeforeResuming<R, Pack, Source> before_;
  std::vector<Error> problems_{};
  bool reopened_ = false;
};

}  // namespace fulgurite::loop
