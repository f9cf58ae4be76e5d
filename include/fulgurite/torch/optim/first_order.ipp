#pragma once
// The bodies of torch/optim/first_order.hpp.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <tuple>

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <fulgurite/core/archive.hpp>
#include <fulgurite/torch/device/internals.hpp>
#include <fulgurite/torch/optim/first_order.hpp>
#include <fulgurite/torch/optim/optimizer.hpp>

namespace fulgurite::optim {

void AdamOptions::state(auto& archive) {
  archive("lr", lr)("beta1", betas[0]).option("beta2", betas[1]).option("eps", eps);
  archive.option("weight_decay", weight_decay).option("amsgrad", amsgrad);
}
FULGURITE_STATE(AdamOptions)
FULGURITE_ARENA_OPTIMIZER(INSTANTIATE, rule::Adam<AdamOptions, false>);

void AdamWOptions::state(auto& archive) {
  archive("lr", lr)("beta1", betas[0]).option("beta2", betas[1]).option("eps", eps);
  archive.option("weight_decay", weight_decay).option("amsgrad", amsgrad);
}
FULGURITE_STATE(AdamWOptions)
FULGURITE_ARENA_OPTIMIZER(INSTANTIATE, rule::Adam<AdamWOptions, true>);

namespace rule {

FULGURITE_BULK_BODY std::array<std::optional<double>, 3> RMSprop::initial(Options const& o) {
  return {0.0, o.momentum > 0 ? std::optional(0.0) : std::nullopt, o.centered ? std::optional(0.0) : std::nullopt};
}

FULGURITE_BODY void RMSprop::check(Options const& o) {
  require_option(o.lr >= 0, name, "lr", o.lr);
  require_option(o.alpha >= 0, name, "alpha", o.alpha);
  require_option(o.eps >= 0, name, "eps", o.eps);
  require_option(o.momentum >= 0, name, "momentum", o.momentum);
  require_option(o.weight_decay >= 0, name, "weight_decay", o.weight_decay);
}

FULGURITE_BODY void Adagrad::check(Options const& o) {
  require_option(o.lr >= 0, name, "lr", o.lr);
  require_option(o.lr_decay >= 0, name, "lr_decay", o.lr_decay);
  require_option(o.weight_decay >= 0, name, "weight_decay", o.weight_decay);
  require_option(o.initial_accumulator_value >= 0, name, "initial_accumulator_value", o.initial_accumulator_value);
  require_option(o.eps >= 0, name, "eps", o.eps);
}

FULGURITE_BULK_BODY Adagrad::Adagrad(Options const& o, long steps_before)
    : o_(o), rate_(o.lr / (1 + static_cast<double>(steps_before) * o.lr_decay)) {}

}  // namespace rule

void RMSpropOptions::state(auto& archive) {
  archive("lr", lr)("momentum", momentum).option("alpha", alpha).option("eps", eps);
  archive.option("weight_decay", weight_decay).option("centered", centered);
}
FULGURITE_STATE(RMSpropOptions)
FULGURITE_ARENA_OPTIMIZER(INSTANTIATE, rule::RMSprop);

void AdagradOptions::state(auto& archive) {
  archive("lr", lr).option("lr_decay", lr_decay).option("weight_decay", weight_decay);
  archive.option("initial_accumulator_value", initial_accumulator_value).option("eps", eps);
}
FULGURITE_STATE(AdagradOptions)
FULGURITE_ARENA_OPTIMIZER(INSTANTIATE, rule::Adagrad);

namespace rule {

FULGURITE_BULK_BODY std::array<std::optional<double>, 1> SGD::initial(Options const& o) {
  return {o.momentum != 0 ? std::optional(0.0) : std::nullopt};
}

FULGURITE_BODY void SGD::check(Options const& o) {
  require_option(o.lr >= 0, name, "lr", o.lr);
  require_option(o.momentum >= 0, name, "momentum", o.momentum);
  require_option(o.weight_decay >= 0, name, "weight_decay", o.weight_decay);
  require_option(!o.nesterov || (o.momentum > 0 && o.dampening == 0), name,
                 "nesterov (which needs momentum > 0 and dampening = 0)", 1);
}

FULGURITE_BULK_BODY SGD::SGD(Options const& o, long steps_before) : o_(o), first_(steps_before == 0) {}

}  // namespace rule

void SGDOptions::state(auto& archive) {
  archive("lr", lr)("momentum", momentum).option("dampening", dampening);
  archive.option("weight_decay", weight_decay).option("nesterov", nesterov);
}
FULGURITE_STATE(SGDOptions)
FULGURITE_ARENA_OPTIMIZER(INSTANTIATE, rule::SGD);

}  // namespace fulgurite::optim

// The steps of LibTorch's own optimizers by the same rules.

namespace fulgurite::libtorch {

/// One of LibTorch's optimizers as an update rule: the rule's options, and the states of a parameter in its order.
/// `writes`: how often LibTorch's step writes to the parameter, which counts its version. SGD writes to
/// `parameter.data()`, which has a version of its own.
template <class X>
struct AsRule;

template <class OurOptions, bool Decoupled>
struct AdamAsRule {
  using Rule = optim::rule::Adam<OurOptions, Decoupled>;
  static int writes(OurOptions const& options) { return Decoupled && options.weight_decay != 0 ? 2 : 1; }
  static OurOptions options(auto const& given) {
    auto const [beta1, beta2] = given.betas();
    return {.lr = given.lr(),
            .betas = {beta1, beta2},
            .eps = given.eps(),
            .weight_decay = given.weight_decay(),
            .amsgrad = given.amsgrad()};
  }
  static std::array<at::Tensor*, 3> states(auto& of) { return {&of.exp_avg(), &of.exp_avg_sq(), &of.max_exp_avg_sq()}; }
};
template <>
struct AsRule<torch::optim::Adam> : AdamAsRule<optim::AdamOptions, false> {};
template <>
struct AsRule<torch::optim::AdamW> : AdamAsRule<optim::AdamWOptions, true> {};

template <>
struct AsRule<torch::optim::RMSprop> {
  using Rule = optim::rule::RMSprop;
  static int writes(optim::RMSpropOptions const&) { return 1; }
  static optim::RMSpropOptions options(auto const& given) {
    return {.lr = given.lr(),
            .alpha = given.alpha(),
            .eps = given.eps(),
            .weight_decay = given.weight_decay(),
            .momentum = given.momentum(),
            .centered = given.centered()};
  }
  static std::array<at::Tensor*, 3> states(auto& of) {
    return {&of.square_avg(), &of.momentum_buffer(), &of.grad_avg()};
  }
};

template <>
struct AsRule<torch::optim::Adagrad> {
  using Rule = optim::rule::Adagrad;
  static int writes(optim::AdagradOptions const&) { return 1; }
  static optim::AdagradOptions options(auto const& given) {
    return {.lr = given.lr(),
            .lr_decay = given.lr_decay(),
            .weight_decay = given.weight_decay(),
            .initial_accumulator_value = given.initial_accumulator_value(),
            .eps = given.eps()};
  }
  static std::array<at::Tensor*, 1> states(auto& of) { return {&of.sum()}; }
};

template <>
struct AsRule<torch::optim::SGD> {
  using Rule = optim::rule::SGD;
  static int writes(optim::SGDOptions const&) { return 0; }
  static optim::SGDOptions options(auto const& given) {
    return {.lr = given.lr(),
            .momentum = given.momentum(),
            .dampening = given.dampening(),
            .weight_decay = given.weight_decay(),
            .nesterov = given.nesterov()};
  }
  static std::array<at::Tensor*, 1> states(auto& of) { return {&of.momentum_buffer()}; }
};

/// True if the tensor's numbers are in the order of the parameter's in the CPU's memory, without gaps, as they are:
/// neither negated nor conjugated when they are read, and no zeros without memory.
FULGURITE_BULK_BODY bool in_one_order(at::Tensor const& one, at::Tensor const& parameter) {
  return one.defined() && one.is_cpu() && one.layout() == at::kStrided && !one.is_neg() && !one.is_conj() &&
         !one._is_zerotensor() && one.scalar_type() == parameter.scalar_type() && one.is_non_overlapping_and_dense() &&
         one.sizes() == parameter.sizes() &&
         (one.strides() == parameter.strides() || (one.is_contiguous() && parameter.is_contiguous()));
}

#if defined(__x86_64__)
/// Updates a part of a parameter. Blocks are read and written in whole portions of 64 bytes; what is left beside them
/// is updated in copies.
template <class T, std::size_t N, class Rule>
void update_part(Rule const& rule, std::array<T*, 2 + N> const& memory, std::size_t begin, std::size_t end) {
  constexpr std::size_t portion = 64 / sizeof(T);
  auto const update = [&](std::array<T*, 2 + N> const& at, std::size_t size) {
    std::array<T*, N> states;
    std::copy(at.begin() + 2, at.end(), states.begin());
    as_libtorch_rounds<T, N>(rule, at[0], at[1], false, states, size);
  };
  auto const from = [&](std::size_t first) {
    auto moved = memory;
    for (auto& data : moved)
      if (data != nullptr) data += first;
    return moved;
  };
  auto const rest = (end - begin) % portion;
  if (end - begin != rest) update(from(begin), end - begin - rest);
  if (rest == 0) return;
  auto const last = from(end - rest);
  std::array<std::array<T, portion>, 2 + N> copies = {};
  std::array<T*, 2 + N> at = {};
  for (std::size_t i = 0; i != last.size(); ++i)
    if (last[i] != nullptr) std::copy_n(last[i], rest, at[i] = copies[i].data());
  update(at, portion);
  for (std::size_t i = 0; i != last.size(); ++i)
    if (i != 1 && last[i] != nullptr) std::copy_n(at[i], rest, last[i]);
}

template <class T, std::size_t N, class Rule>
void update_parameter(Rule const& rule, std::array<at::Tensor const*, 2 + N> const& tensors) {
  std::array<T*, 2 + N> memory = {};
  for (std::size_t i = 0; i != tensors.size(); ++i)
    if (tensors[i] != nullptr) memory[i] = static_cast<T*>(tensors[i]->mutable_data_ptr());
  at::parallel_for(0, tensors[0]->numel(), at::internal::GRAIN_SIZE, [&](std::int64_t begin, std::int64_t end) {
    update_part<T, N>(rule, memory, static_cast<std::size_t>(begin), static_cast<std::size_t>(end));
  });
}
#endif

template <class X>
bool step_in_one_pass([[maybe_unused]] X& optimizer) {
#if defined(__x86_64__)
  using As = AsRule<X>;
  using Rule = typename As::Rule;
  using State = typename TypesOf<X>::ParamState;
  constexpr auto states = Rule::states.size();
  using Tensors = std::array<at::Tensor const*, 2 + states>;
  if (c10::impl::tls_is_dispatch_key_included(recording_key)) return false;

  // Calls f(options, state, tensors) for each parameter that has a gradient, as long as that returns true. A tensor
  // that the rule does not need is null, as is the state of a parameter that has none.
  auto const each = [&](auto const& f) {
    for (auto& group : optimizer.param_groups()) {
      auto const options = As::options(static_cast<typename TypesOf<X>::Options const&>(group.options()));
      auto const needed = Rule::initial(options);
      for (auto const& parameter : group.params()) {
        auto const& gradient = parameter.grad();
        if (!gradient.defined()) continue;
        auto const found = optimizer.state().find(parameter.unsafeGetTensorImpl());
        auto* const state = found == optimizer.state().end() ? nullptr : static_cast<State*>(found->second.get());
        Tensors tensors = {&parameter, &gradient};
        for (std::size_t s = 0; state != nullptr && s != states; ++s)
          if (needed[s]) tensors[2 + s] = As::states(*state)[s];
        if (!f(options, state, tensors)) return false;
      }
    }
    return true;
  };

  bool const possible = each([](auto const& options, State const* state, Tensors const& tensors) {
    auto const type = tensors[0]->scalar_type();
    if (type != at::kFloat && type != at::kDouble) return false;
    auto const needed = Rule::initial(options);
    if (state == nullptr && std::ranges::any_of(needed, [](auto const& one) { return one.has_value(); })) return false;
    bool const apart = !tensors[0]->is_alias_of(*tensors[1]);
    return apart && std::ranges::all_of(tensors, [&](at::Tensor const* one) {
             return one == nullptr || in_one_order(*one, *tensors[0]);
           });
  });
  if (!possible) return false;

  return each([](auto const& options, State* state, Tensors const& tensors) {
    long steps = 1;  // of a rule that counts none, the first step is LibTorch's
    if constexpr (requires { state->step(); }) {
      steps = static_cast<long>(state->step());
      state->step(steps + 1);
    }
    Rule const rule(options, steps);
    if (tensors[0]->scalar_type() == at::kFloat) update_parameter<float, states>(rule, tensors);
    else update_parameter<double, states>(rule, tensors);
    for (int write = 0; write != As::writes(options); ++write) tensors[0]->unsafeGetTensorImpl()->bump_version();
    return true;
  });
#else
  return false;
#endif
}
FULGURITE_INSTANTIATE(bool step_in_one_pass(torch::optim::Adagrad&));
FULGURITE_INSTANTIATE(bool step_in_one_pass(torch::optim::Adam&));
FULGURITE_INSTANTIATE(bool step_in_one_pass(torch::optim::AdamW&));
FULGURITE_INSTANTIATE(bool step_in_one_pass(torch::optim::RMSprop&));
FULGURITE_INSTANTIATE(bool step_in_one_pass(torch::optim::SGD&));

}  // namespace fulgurite::libtorch
