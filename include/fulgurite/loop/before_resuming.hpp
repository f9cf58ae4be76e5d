#pragma once
// What a run was before a file was loaded into it, to be put back where something of the file does not fit.

#include <optional>

#include <fulgurite/loop/before_cut.hpp>
#include <fulgurite/loop/kept_weights.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/run_position.hpp>
#include <fulgurite/loop/run_state.hpp>
#include <fulgurite/loop/whole_run.hpp>

namespace fulgurite::loop {

/// What is there once the optimizers are made. One that needs no state has none in a file.
template <class R, class Archive>
void fold_training(State<R>& run, Archive& archive) {
  if constexpr (optimizers_resume<R, typename R::Backend::RunFile::Saver>) fold_optimizers(run, archive);
  fold_kept_cut(run, archive);
  fold_run(run, archive);
}

/// Kept in two parts, as a file is loaded: the model before setup is over, the training once there are optimizers.
template <class R, class Pack, class Source>
class BeforeResuming {
  using Memory = typename R::Backend::RunFile::Memory;

 public:
  BeforeResuming(State<R>& run, Pack& pack, Source& source) : run_(run), pack_(pack), source_(source) {}
  BeforeResuming(BeforeResuming const&) = delete;
  BeforeResuming& operator=(BeforeResuming const&) = delete;

  void keep_model() {
    outcome_ = run_.made.outcome;
    weights_.keep(*run_.parts.model);
    model_.save([&](auto& archive) { fold_model(run_, pack_, source_, archive); });
  }
  void keep_training() {
    training_.emplace().save([&](auto& archive) { fold_training(run_, archive); });
  }
  /// As much of it as was kept.
  void put_back() {
    weights_.put_back(*run_.parts.model);
    model_.put_back([&](auto& archive) { fold_model(run_, pack_, source_, archive); });
    if (training_) training_->put_back([&](auto& archive) { fold_training(run_, archive); });
    run_.made.outcome = outcome_;
  }

 private:
  State<R>& run_;
  Pack& pack_;
  Source& source_;
  KeptWeights<R> weights_{};
  Memory model_{};
  std::optional<Memory> training_{};
  Outcome outcome_{};
};

}  // namespace fulgurite::loop
