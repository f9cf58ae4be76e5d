#pragma once
// A fit that goes on from a file: what is loaded when, and what is put back where something does not fit.

#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include <fulgurite/core/error.hpp>
#include <fulgurite/loop/checkpointing.hpp>
#include <fulgurite/loop/ckpt_path.hpp>
#include <fulgurite/loop/kept_weights.hpp>

namespace fulgurite::loop {

/// The weights of a file for an evaluation, and what the model keeps beside them. Where one does not fit, the other is
/// put back. Counters and callbacks stay as they are.
template <class R, class Pack, class From>
void load_for_evaluation(State<R>& run, Pack& pack, From const& from) {
  if constexpr (!std::is_same_v<From, Anew>) {
    auto const path = path_of(from);
    if (!path) return;
    auto const progress = run.progress;
    auto& model = *run.parts.model;
    with_whole_file(run, checkpoints_to_try(run, pack, *path), [&](auto file) {
      KeptWeights<R> before;
      before.keep(model);
      file.load_weights(model);
      try {
        file.load([&](auto& archive) { fold_weights_state(run, archive); });
      } catch (...) {
        before.put_back(model);
        throw;
      }
    });
    run.progress = progress;
  }
}

/// Loads one file in three parts. Weights and what the model, the data module and the callbacks keep are there before
/// the optimizers are made, and these before training starts; what hooks did to them on the way is undone when the
/// first batch is due, and random numbers go on as they were. A file that does not fit leaves everything as it was.
template <class R, class Pack, class Source>
class Resumption {
  using RunFile = typename R::Backend::RunFile;
  using Saver = typename RunFile::Saver;

 public:
  Resumption(State<R>& run, Pack& pack, Source& source, RunFile file)
      : run_(run), pack_(pack), source_(source), file_(std::move(file)) {}

  /// After setup and configure_model. The model's parameters are written in place.
  void load_model() {
    refuse_weights_alone();
    weights_.keep(*run_.parts.model);
    before_.save([&](auto& archive) { fold_model(archive); });
    file_.load_weights(*run_.parts.model);
    or_put_back([&] {
      file_.load([&](auto& archive) { fold_model(archive); });
      auto const& most = run_.asked.options.max_epochs;
      if (most && *most >= 0 && run_.progress.epoch > *most)
        throw Error("fulgurite.resume.max_epochs", "the file is of a run of " + std::to_string(run_.progress.epoch) +
                                                       " epochs, and max_epochs = " + std::to_string(*most) +
                                                       ": raise it, or take an earlier file");
    });
  }

  /// After on_fit_start, when the optimizers are there. What comes last is tried now, so that all of the file is known
  /// to fit before training starts.
  void load_training() {
    refuse_forgetful();
    or_put_back([&] {
      file_.load([&](auto& archive) {
        fold_model(archive);
        fold_optimizers(run_, archive);
        fold_run(run_, archive);
      });
    });
  }

  /// After on_train_start: everything, as it was saved.
  void load_all() {
    file_.load_weights(*run_.parts.model);
    file_.load([&](auto& archive) { fold_everything(run_, pack_, source_, archive); });
  }

 private:
  template <class Archive>
  void fold_model(Archive& archive) {
    fold_weights_state(run_, archive);
    fold_data_module<R>(source_, archive);
    fold_parts(run_, pack_, archive);
  }

  void refuse_weights_alone() {
    bool whole = true;
    file_.load([&](auto& archive) { whole = !lacks(archive, "optimizers"); });
    if (!whole)
      throw Error("fulgurite.resume.weights_only",
                  "the file was saved with save_weights_only, so no fit can go on from it: load_weights(model, file) "
                  "begins a new run with its weights");
  }

  /// An optimizer that saves nothing would begin anew, with other steps than those of the run that was stopped.
  void refuse_forgetful() {
    if constexpr (!optimizers_resume<R, Saver>)
      throw Error("fulgurite.resume.optimizer",
                  "an optimizer has no state(archive), so the run cannot go on: give it one that saves its moments");
  }

  template <class Load>
  void or_put_back(Load&& load) {
    try {
      load();
    } catch (...) {
      weights_.put_back(*run_.parts.model);
      before_.load([&](auto& archive) { fold_model(archive); });
      throw;
    }
  }

  State<R>& run_;
  Pack& pack_;
  Source& source_;
  RunFile file_;
  KeptWeights<R> weights_{};
  typename RunFile::Memory before_{};
};

}  // namespace fulgurite::loop
