#pragma once
// Models and callbacks that most loop tests share: where something happened, which gradients were stepped.

#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/loop/trainer.hpp>

#include "toy.hpp"

namespace toy {

using At = std::pair<int, long>;  ///< epoch, batch
using Places = std::vector<At>;

/// Positions at which things happened.
struct Positions {
  using Stateless = fulgurite::ByChoice;
  Places batches = {}, steps = {}, clears = {}, validations = {};
  void on_train_batch_start(auto& ctx) { batches.push_back(here(ctx)); }
  void on_before_optimizer_step(auto& ctx) { steps.push_back(here(ctx)); }
  void on_before_zero_grad(auto& ctx) { clears.push_back(here(ctx)); }
  void on_validation_start(auto& ctx) {
    if (!ctx.sanity_checking()) validations.push_back(here(ctx));
  }
  static At here(auto& ctx) { return {ctx.current_epoch(), ctx.batch_idx()}; }
};

/// The gradient of batch b is b + 1; keeps the gradients that were stepped.
struct Slope {
  Tensor p = Tensor::parameter(0.0);
  std::vector<double> stepped = {};
  Tensor training_step(double batch) { return p * Tensor(batch + 1); }
  void on_before_optimizer_step() { stepped.push_back(p.grad()); }
  Sgd configure_optimizers() { return Sgd{{p}}; }
};

/// P that can be validated.
struct Validated : P {
  void validation_step(double) {}
};

/// Calls a function of (what, ctx) at places where a run can be influenced.
template <class F>
struct Influence {
  using Stateless = fulgurite::ByChoice;
  F act;
  void on_fit_start(auto& ctx) { act("on_fit_start", ctx); }
  void on_train_epoch_start(auto& ctx) { act("on_train_epoch_start", ctx); }
  void on_train_batch_end(auto& ctx) { act("on_train_batch_end", ctx); }
  void on_train_epoch_end(auto& ctx) { act("on_train_epoch_end", ctx); }
  void on_validation_end(auto& ctx) { act("on_validation_end", ctx); }
};
template <class F>
Influence(F) -> Influence<F>;

/// Asks for a stop in that batch.
inline auto stop_at(int epoch, long batch) {
  return Influence{[=](std::string_view where, auto& ctx) {
    if (where == "on_train_batch_end" && ctx.current_epoch() == epoch && ctx.batch_idx() == batch) ctx.request_stop();
  }};
}

/// A trainer of one of these models on the plain device.
template <class M, class... Cs>
auto train(fulgurite::TrainerOptions options, fulgurite::Automatic how, Cs... callbacks) {
  return fulgurite::make_trainer<M>(std::move(options), Device{}, fulgurite::Float32{}, how, std::move(callbacks)...);
}

/// The identifier of the Error that this throws, "" where it throws none.
template <class F>
std::string refusal(F&& f, std::string* sentence = nullptr) {
  try {
    f();
  } catch (fulgurite::Error const& error) {
    if (sentence) *sentence = error.what();
    return std::string(error.identifier());
  }
  return "";
}

}  // namespace toy
