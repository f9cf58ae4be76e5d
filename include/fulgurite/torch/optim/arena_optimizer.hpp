#pragma once
// An optimizer over an arena, in the shape that the loops drive: parameter groups, rates, one pass over memory in a
// step. What it keeps and saves is in named_state.hpp.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <fulgurite/core/error.hpp>
#include <fulgurite/torch/optim/arena.hpp>
#include <fulgurite/torch/optim/arena_parameters.hpp>
#include <fulgurite/torch/optim/finite.hpp>
#include <fulgurite/torch/optim/listed_once.hpp>
#include <fulgurite/torch/optim/named_state.hpp>
#include <fulgurite/torch/optim/pass.hpp>

namespace fulgurite::optim {

/// Throws [fulgurite.optim.option], with the number, where an option is out of its range.
inline void require_option(bool holds, std::string_view optimizer, std::string_view option, double value) {
  if (holds) return;
  throw Error("fulgurite.optim.option",
              std::string(optimizer) + "'s " + std::string(option) + " = " + std::to_string(value) +
                  " is not allowed: rates, eps, decays and momenta are not negative, betas are in [0, 1)");
}

/// Parameters with options of their own: `optim::Adam({{body->parameters(), {.lr = 1e-4}}, {head->parameters(), {.lr =
/// 1e-3}}})`.
template <class Options>
struct Group {
  std::vector<at::Tensor> parameters;
  Options options = {};
};

/// Updates parameters, which become slices of a few flat buffers, as do their gradients: clearing is one operation,
/// clipping one, and the update one pass. The steps are those of torch::optim, bit for bit on x86 CPUs for float and
/// double (LibTorch 2.11): same operations, same order, same rounding. Different are
///   - gradients: they stay where they are and are added to, so that -0 becomes 0; `p.grad()` is defined, and zero,
///     where backward did not reach a parameter. Such a parameter is left alone all the same, as by torch::optim (see
///     libtorch::Arena). While a fit of one process on the CPU runs, by automatic
///     optimization without clipping, windows of several batches or Captured, a gradient of 64 KB and more (float or
///     double, a multiple of 64 bytes) is as torch::optim has it: undefined when it is cleared, then where backward
///     makes it;
///   - a parameter that is listed twice in a group (a shared module): it is stepped once;
///   - sparse gradients, which become dense;
///   - a parameter that two optimizers update: it lies in the arena of the one that looked last, and is copied over
///     when the other does. Where both were cleared and no backward reached it, it counts for the second as having a
///     gradient of zero.
/// Everybody keeps using the module as before: loading weights, to(device), freezing, taking p.grad(), even set_data or
/// Module::zero_grad. Where that takes a tensor out of the buffers it is copied back in at the next step, which costs
/// time but no gradient.
template <class Rule>
class ArenaOptimizer : public NamedState<Rule> {
  using Base = NamedState<Rule>;

 public:
  using Options = typename Rule::Options;
  static constexpr bool needs_closure = false;
  static constexpr bool stable_gradients = true;
  static constexpr std::string_view name() { return Rule::name; }
  static std::string kind() { return "fulgurite::optim::" + std::string(name()); }

  /// All parameters of a module, which gives `state` their names.
  explicit ArenaOptimizer(torch::nn::Module const& module, Options const& options = {}) : ArenaOptimizer() {
    add_group(module.parameters(), options);
    for (auto const& parameter : module.named_parameters())
      for (std::size_t i = 0; i != arena_->slots().size(); ++i)
        if (arena_->slots()[i].parameter.is_same(parameter.value())) names_[parameter.key()] = i;
  }
  explicit ArenaOptimizer(std::vector<at::Tensor> const& parameters, Options const& options = {}) : ArenaOptimizer() {
    add_group(parameters, options);
  }
  /// With a rate alone, as torch::optim takes it: `optim::Adam(parameters(), 1e-3)`.
  template <class From>
    requires(std::derived_from<From, torch::nn::Module> || std::same_as<From, std::vector<at::Tensor>>)
  ArenaOptimizer(From const& from, std::floating_point auto lr) : ArenaOptimizer(from, with_rate(lr)) {}
  ArenaOptimizer(std::vector<Group<Options>> const& groups) : ArenaOptimizer() {
    for (auto const& group : groups) add_group(group.parameters, group.options);
  }

  /// Sets the gradients to zero, in place.
  void zero_grad() { arena_->zero_grad(); }

  void step() {
    arena_->update([&](libtorch::Arena::Run const& run, libtorch::Arena::Buffer const& buffer) {
      libtorch::pass<Rule::states.size()>(Rule(groups_[run.group], run.steps), run, buffer);
    });
  }

  std::size_t groups() const { return groups_.size(); }
  double lr(std::size_t group) const { return groups_.at(group).lr; }
  void set_lr(std::size_t group, double value) { groups_.at(group).lr = value; }
  std::optional<double> momentum(std::size_t group) const { return Rule::momentum(groups_.at(group)); }
  /// Sets the momentum of a group, or the first beta of Adam. Throws fulgurite.optim.option for a value that is none,
  /// and for a group that was made without momentum, since it keeps no buffer for one.
  void set_momentum(std::size_t group, double value)
    requires requires(Options& options) { Rule::set_momentum(options, value); }
  {
    Options options = groups_.at(group);
    Rule::set_momentum(options, value);
    Rule::check(options);
    if (value != 0 && momentum(group) == 0.0) require_kept(group, options);
    groups_[group] = options;
  }
  std::optional<double> weight_decay(std::size_t group) const { return groups_.at(group).weight_decay; }
  Options const& options(std::size_t group) const { return groups_.at(group); }

  /// Adds a parameter group, for which the buffers are allocated again. Throws fulgurite.optimizer.twice for a
  /// parameter that another group has.
  void add_group(std::vector<at::Tensor> const& parameters, Options const& options) {
    Rule::check(options);
    std::vector<at::Tensor> own;
    for (auto const& parameter : parameters) {
      auto const same = [&](at::Tensor const& other) { return other.is_same(parameter); };
      if (std::any_of(arena_->parameters().begin(), arena_->parameters().end(), same))
        throw libtorch::InTwoGroups(name(), parameter);
      if (std::none_of(own.begin(), own.end(), same)) own.push_back(parameter);
    }
    auto const initial = Rule::initial(options);
    arena_->add(own, groups_.size(), {initial.begin(), initial.end()});
    groups_.push_back(options);
  }
  /// The same with this rate; the other options are those of the first group.
  void add_group(std::vector<at::Tensor> const& parameters, double lr) {
    Options options = groups_.empty() ? Options{} : groups_.front();
    options.lr = lr;
    add_group(parameters, options);
  }

  /// Which gradients count as received, and the way to put that back: for a strategy that runs a step once more and
  /// takes its effects back. See libtorch::Arena.
  std::vector<bool> received() { return arena_->received(); }
  void set_received(std::vector<bool> const& all) { arena_->set_received(all); }

  /// Whether all gradients are finite, found in one pass over memory; nullopt if that would wait for a device.
  std::optional<bool> gradients_finite() {
    for (auto const& buffer : arena_->buffers())
      if (!buffer.gradients.is_cpu()) return std::nullopt;
    return arena_->all_gradients([](at::Tensor const& flat) { return libtorch::all_finite(flat); });
  }

  /// The parameters of all groups, in the order given. Clipping takes their gradients as a whole.
  libtorch::ArenaParameters parameters() { return libtorch::ArenaParameters(*arena_); }

 private:
  using Base::arena_;
  using Base::groups_;
  using Base::names_;

  static Options with_rate(double lr) {
    Options options;
    options.lr = lr;
    return options;
  }
  ArenaOptimizer() = default;

  /// Throws an Error if a parameter of the group lacks a state that these options need.
  void require_kept(std::size_t group, Options const& options) const {
    auto const needed = Rule::initial(options);
    for (auto const& slot : arena_->slots())
      for (std::size_t s = 0; slot.group == group && s != needed.size(); ++s)
        if (needed[s] && !arena_->states().keeps(group, s))
          throw Error("fulgurite.optim.option", std::string(name()) + " was made without momentum in group " +
                                                    std::to_string(group) +
                                                    " and keeps no buffer for one: construct it "
                                                    "with one");
  }
};

}  // namespace fulgurite::optim
