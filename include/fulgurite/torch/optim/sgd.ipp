#pragma once
// The bodies of torch/optim/sgd.hpp.

#include <fulgurite/core/archive.hpp>
#include <fulgurite/torch/optim/sgd.hpp>

namespace fulgurite::optim::rule {

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

}  // namespace fulgurite::optim::rule

namespace fulgurite::optim {

void SGDOptions::state(auto& archive) {
  archive("lr", lr)("momentum", momentum).option("dampening", dampening);
  archive.option("weight_decay", weight_decay).option("nesterov", nesterov);
}
FULGURITE_STATE(SGDOptions)
FULGURITE_ARENA_OPTIMIZER(INSTANTIATE, rule::SGD);

}  // namespace fulgurite::optim
