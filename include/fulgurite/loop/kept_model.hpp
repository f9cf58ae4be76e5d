#pragma once
// A model and its data module as they are, kept while something is tried out.

#include <fulgurite/core/state.hpp>
#include <fulgurite/loop/kept_run.hpp>
#include <fulgurite/loop/kept_weights.hpp>
#include <fulgurite/loop/loader_state.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/run_state.hpp>

namespace fulgurite::loop {

/// Weights, buffers, gradients, what model and data module save of themselves, and random numbers.
template <class R, class Source>
class KeptModel {
  using Backend = typename R::Backend;

 public:
  KeptModel(typename R::Model& model, Source& source) : model_(model), source_(source) {
    weights_.keep(model);
    gradients_.keep(model);
    state_.save([&](auto& archive) { fold(archive); });
  }
  void put_back() {
    // Layers that configure_model has only just made were not there to be kept.
    if (weights_.difference(model_).empty()) {
      weights_.put_back(model_);
      gradients_.put_back(model_);
    }
    state_.put_back([&](auto& archive) { fold(archive); });
    random_.restore();
  }

 private:
  template <class Archive>
  void fold(Archive& archive) {
    fold_data_module<R>(source_, archive);
    if constexpr (Stateful<typename R::Model, Archive>) archive.child("model", model_);
  }

  typename R::Model& model_;
  Source& source_;
  KeptWeights<R> weights_{};
  KeptGradients<R> gradients_{};
  typename Backend::RunFile::Memory state_{};
  decltype(Backend::rng_state()) random_ = Backend::rng_state();
};

}  // namespace fulgurite::loop
