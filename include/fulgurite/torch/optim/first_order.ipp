#pragma once
// The bodies of torch/optim/first_order.hpp.

#include <fulgurite/core/archive.hpp>
#include <fulgurite/torch/optim/first_order.hpp>

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
