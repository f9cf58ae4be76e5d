#pragma once
// All of an open run that steps can change, kept in memory between two epochs, and put back.

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/each_of.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/kept_place.hpp>
#include <fulgurite/loop/kept_weights.hpp>
#include <fulgurite/loop/loader_state.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/run_state.hpp>

namespace fulgurite::loop {

/// The gradients that a model's parameters have, and those that have none.
template <class R>
class KeptGradients {
  using Backend = typename R::Backend;

 public:
  void keep(typename R::Model& model) {
    kept_.clear();
    for (auto const& parameter : Backend::weights(model)) {
      auto const gradient = Backend::gradient(parameter);
      kept_.push_back(gradient.defined() ? Backend::clone(gradient) : gradient);
    }
  }
  void put_back(typename R::Model& model) const {
    std::size_t at = 0;
    for (auto const& parameter : Backend::weights(model))
      if (at != kept_.size()) Backend::set_gradient(parameter, kept_[at++]);
  }

 private:
  std::vector<typename R::Value> kept_{};
};

/// Weights, buffers and gradients; what model, strategy, precision, data module, optimizers and schedules save of
/// themselves; counters, facts, rows and requests that wait, logged values; random numbers. Callbacks are not in it:
/// they hear nothing of a rehearsal. What another thread writes to files goes on.
template <class R, class Source>
class KeptRun {
  using Backend = typename R::Backend;
  using Memory = typename Backend::RunFile::Memory;

 public:
  KeptRun(State<R>& run, Source& source) : run_(run), source_(source), place_(run) {
    weights_.keep(*run.parts.model);
    gradients_.keep(*run.parts.model);
    each_optimizer([&](auto& optimizer) {
      if constexpr (requires { optimizer.received(); }) received_.push_back(optimizer.received());
    });
    parts_.save([&](auto& archive) { fold(archive); });
  }
  KeptRun(KeptRun const&) = delete;
  KeptRun& operator=(KeptRun const&) = delete;

  /// From here on the rehearsal reads this loader, whose place is kept, too.
  template <class Loader>
  void keep_loader(Loader& loader) {
    if constexpr (Stateful<Loader, typename Backend::RunFile::Saver>)
      loader_.save([&](auto& archive) { archive.child("train_loader", loader); });
  }
  template <class Loader>
  void put_back_loader(Loader& loader) const {
    if constexpr (Stateful<Loader, typename Backend::RunFile::Saver>)
      loader_.put_back([&](auto& archive) { archive.child("train_loader", loader); });
    if constexpr (requires { loader.set_epoch(long{}); }) loader.set_epoch(long{place_.progress().epoch});
    // Where a pass was over when it was kept, it would go on with the last batch of that pass.
    if constexpr (Jumps<Loader>) loader.resume_at(0);
  }

  void put_back() {
    // What was recorded of rehearsed steps is freed first: the rest may need its memory.
    if constexpr (R::Strategy::captures) run_.parts.strategy.setup(*run_.parts.model, run_.parts.precision);
    weights_.put_back(*run_.parts.model);
    parts_.put_back([&](auto& archive) { fold(archive); });
    each_optimizer([&](auto& optimizer) { optimizer.zero_grad(); });
    gradients_.put_back(*run_.parts.model);
    each_optimizer([&, i = std::size_t{0}](auto& optimizer) mutable {
      if constexpr (requires { optimizer.received(); }) optimizer.set_received(received_[i++]);
    });
    place_.put_back(run_);
    random_.restore();
  }

 private:
  template <class Archive>
  void fold(Archive& archive) {
    Pack<> nobody{};
    fold_weights_state(run_, archive);
    fold_data_module<R>(source_, archive);
    fold_parts(run_, nobody, archive);
    fold_optimizers(run_, archive);
  }
  template <class F>
  void each_optimizer(F&& f) {
    each_of(run_.parts.optimizers->optimizers, f);
  }

  State<R>& run_;
  Source& source_;
  KeptPlace<R> place_;
  KeptWeights<R> weights_{};
  KeptGradients<R> gradients_{};
  std::vector<std::vector<bool>> received_{};
  Memory parts_{}, loader_{};
  decltype(Backend::rng_state()) random_ = Backend::rng_state();
};

}  // namespace fulgurite::loop
