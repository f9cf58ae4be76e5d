#pragma once
// Adam, AdamW, RMSprop, Adagrad and SGD over an arena, with the interface that the loops use: parameter groups,
// learning rates, an update in one pass over memory, which on a GPU is one kernel. Their state and how it is saved are
// in arena.hpp.

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/torch/optim/arena.hpp>
#include <fulgurite/torch/optim/clip.hpp>
#include <fulgurite/torch/optim/rules.hpp>
#include <fulgurite/torch/optim/update_kernel.hpp>
#include <fulgurite/torch/weights/weights.hpp>

namespace fulgurite::libtorch {

// Runs an update rule over a part of an arena.

#if defined(__x86_64__)
template <class T, std::size_t N, class Rule>
void in_blocks(Rule const& rule, Arena::Run const& run, Arena::Buffer const& buffer) {
  auto const data = [&](at::Tensor const& flat, std::int64_t first = 0) {
    return flat.defined() ? static_cast<T*>(flat.mutable_data_ptr()) + (run.begin - first) : nullptr;
  };
  std::array<T*, N> states{};
  for (std::size_t s = 0; s != N; ++s) states[s] = data(buffer.states[s], buffer.states_begin);
  bool const apart = run.gradient != nullptr;
  auto* const gradients = apart ? static_cast<T*>(run.gradient->mutable_data_ptr()) : data(buffer.gradients);
  auto* const parameters = data(buffer.parameters);
  in_parts(run.end - run.begin, [&](std::int64_t begin, std::int64_t end) {
    auto part = states;
    for (auto& state : part)
      if (state != nullptr) state += begin;
    as_libtorch_rounds<T, N>(rule, parameters + begin, gradients + begin, apart, part,
                             static_cast<std::size_t>(end - begin));
  });
}
#endif

/// Writes down what the rule does to a run.
template <std::size_t N, class Rule>
TracedUpdate traced(Rule const& rule, Arena::Run const& run, Arena::Buffer const& buffer) {
  TracedUpdate all{.trace = UpdateTrace(2 + N),
                   .type = buffer.parameters.scalar_type(),
                   .device = buffer.parameters.device(),
                   .count = run.end - run.begin};
  auto const take = [&](std::size_t value, at::Tensor const& flat, std::int64_t first) {
    if (flat.defined())
      all.memory[value] = static_cast<char*>(flat.mutable_data_ptr()) +
                          (run.begin - first) * static_cast<std::int64_t>(flat.itemsize());
  };
  take(0, buffer.parameters, 0);
  take(1, buffer.gradients, 0);
  for (std::size_t s = 0; s != N; ++s) take(2 + s, buffer.states[s], buffer.states_begin);
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    rule(TracedValue(all.trace, I)...);
  }(std::make_index_sequence<2 + N>{});
  return all;
}

/// The rule as LibTorch operators on tensors in the order of its inputs.
template <std::size_t N, class Rule>
std::function<void(std::span<at::Tensor const>)> operators_of(Rule const& rule) {
  return [&rule](std::span<at::Tensor const> tensors) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      rule(at::Tensor(tensors[I])...);
    }(std::make_index_sequence<2 + N>{});
  };
}

/// The rule as one kernel of a GPU; false if there is none with the bits of LibTorch's operators.
template <std::size_t N, class Rule>
bool in_one_kernel(Rule const& rule, Arena::Run const& run, Arena::Buffer const& buffer) {
  auto const all = traced<N>(rule, run, buffer);
  return updated_by_kernel(all.trace, all.inputs(), all.count, all.type, all.device, operators_of<N>(rule));
}

/// The same rule as LibTorch operators, one for each line: for GPUs, and for other element types and processors.
template <std::size_t N, class Rule>
void as_operators(Rule const& rule, Arena::Run const& run, Arena::Buffer const& buffer) {
  if (buffer.parameters.is_cuda() && !run.gradient && in_one_kernel<N>(rule, run, buffer)) return;
  auto const part = [&](at::Tensor const& flat, std::int64_t first = 0) {
    return flat.defined() ? flat.narrow(0, run.begin - first, run.end - run.begin) : at::Tensor();
  };
  auto const gradient = [&] {
    if (!run.gradient) return part(buffer.gradients);
    return run.gradient->as_strided({run.end - run.begin}, {1}).add(0);  // the same bits as adding to zero
  };
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    rule(part(buffer.parameters), gradient(), part(buffer.states[I], buffer.states_begin)...);
  }(std::make_index_sequence<N>{});
}

template <std::size_t N, class Rule>
void pass(Rule const& rule, Arena::Run const& run, Arena::Buffer const& buffer) {
#if defined(__x86_64__)
  auto const type = buffer.parameters.scalar_type();
  if (buffer.parameters.is_cpu() && type == at::kFloat) return in_blocks<float, N>(rule, run, buffer);
  if (buffer.parameters.is_cpu() && type == at::kDouble) return in_blocks<double, N>(rule, run, buffer);
#endif
  as_operators<N>(rule, run, buffer);
}

FULGURITE_CLIPPING(EXTERN, ArenaParameters);
FULGURITE_EXTERN(at::Tensor listed_twice(ArenaParameters const&));

}  // namespace fulgurite::libtorch

namespace fulgurite::optim {

#define FULGURITE_SENTENCE_OPTIM_OPTIONS                                                                               \
  "[fulgurite.optim.options] an optimizer takes a module or its parameters, then a learning rate, or options of its "  \
  "own by their names: optim::SGD(*this, 0.1), or optim::SGD(*this, {.lr = 0.1, .momentum = 0.9})"
/// In an optimizer: refuses names that its options do not have.
#if defined(__clang__)
#define FULGURITE_OPTIM_OPTIONS(CLASS)                                                                                 \
  template <class fulgurite_optim_options_are = CLASS##Options>                                                        \
  explicit CLASS(...) FULGURITE_REFUSED(FULGURITE_SENTENCE_OPTIM_OPTIONS)
#else
#define FULGURITE_OPTIM_OPTIONS(CLASS)                                                                                 \
  template <class fulgurite_optim_options_are = CLASS##Options>                                                        \
  explicit CLASS(torch::nn::Module const&, ...) = delete;                                                              \
  template <class fulgurite_optim_options_are = CLASS##Options>                                                        \
  explicit CLASS(std::vector<at::Tensor> const&, ...) = delete
#endif

/// What follows the parameters if it is no options: a learning rate, or refused.
template <class T, class Options>
concept NoOptionsOf = !std::convertible_to<T const&, Options const&>;
/// Whose parameters an optimizer takes. Two groups in braces are none of these.
template <class T>
concept ModuleOrTensors =
    std::convertible_to<T const&, torch::nn::Module const&> || std::convertible_to<T const&, std::vector<at::Tensor>>;

/// The default options with this learning rate.
template <class Options, class T>
Options with_rate([[maybe_unused]] T const& lr) {
  constexpr bool is_rate = std::is_arithmetic_v<T> && !std::same_as<T, bool>;
  static_assert(is_rate, FULGURITE_SENTENCE_OPTIM_OPTIONS);
  Options options;
  if constexpr (is_rate) options.lr = static_cast<double>(lr);
  return options;
}

/// Parameters with options of their own:
///
///     optim::Adam({{body->parameters(), {.lr = 1e-4}}, {head->parameters(), {.lr = 1e-3}}})
template <class Options>
struct Group {
  std::vector<at::Tensor> parameters;
  Options options = {};
};

/// The base of fulgurite's optimizers. Their parameters become slices of a few flat buffers, as do their gradients:
/// clearing is one operation, clipping is one, and the update is one pass. The updates are those of torch::optim, bit
/// for bit on x86 CPUs and on GPUs for float and double (LibTorch 2.11): same operations, same order, same rounding. On
/// a GPU the update of a group is one kernel for float and double. These things differ:
///   - Gradients stay where they are and are added to, so that -0 becomes 0. If backward did not reach a parameter, its
///     `p.grad()` is defined and zero. Such a parameter is not updated, as with torch::optim (see libtorch::Arena).
///     There is one exception: during a fit of one process on the CPU with automatic optimization, without clipping,
///     accumulation or Captured. There a gradient of 64 KB or more (float or double, a multiple of 64 bytes) behaves
///     as in torch::optim: it is undefined after clearing, and then where backward allocates it.
///   - A parameter that is listed twice in a group (a shared module) is updated once.
///   - Sparse gradients become dense.
///   - Where SGD's momentum is set after steps with a momentum of 0, it takes the first gradient times
///     1 - dampening; torch::optim::SGD takes the whole one.
///   - A parameter may belong to two optimizers: it is in the arena of the one that used it last, and is copied to the
///     other one's arena when that uses it. If both were cleared and no backward reached the parameter, it counts as
///     having a zero gradient for the second one.
///
/// All other code may use the module as before: load weights, call to(device), freeze, replace p.grad(), even call
/// set_data or Module::zero_grad. If that takes a tensor out of the buffers, it is copied back at the next step, which
/// costs time but loses no gradient.
template <class Rule>
class ArenaOptimizer : public NamedState<Rule> {
 public:
  using Options = typename Rule::Options;
  static constexpr bool needs_closure = false;
  static constexpr bool stable_gradients = true;
  static constexpr std::string_view name() { return Rule::name; }
  static std::string kind() { return "fulgurite::optim::" + std::string(name()); }

  /// Optimizes all parameters of a module. `state` uses the module's names for them.
  explicit ArenaOptimizer(torch::nn::Module const& module, Options const& options = {});
  explicit ArenaOptimizer(std::vector<at::Tensor> const& parameters, Options const& options = {});
  /// Takes a learning rate only, as torch::optim does: `optim::Adam(parameters(), 1e-3)`.
  template <ModuleOrTensors From, NoOptionsOf<Options> Rate>
  ArenaOptimizer(From const& from, Rate const& lr) : ArenaOptimizer(from, with_rate<Options>(lr)) {}
  ArenaOptimizer(std::vector<Group<Options>> const& groups);

  void zero_grad() { this->arena_->zero_grad(); }

  void step();

  std::size_t groups() const { return this->groups_.size(); }
  double lr(std::size_t group) const { return this->groups_.at(group).lr; }
  void set_lr(std::size_t group, double value) { this->groups_.at(group).lr = value; }
  std::optional<double> momentum(std::size_t group) const { return Rule::momentum(this->groups_.at(group)); }
  /// Sets the momentum of a group, or the first beta of Adam. Throws fulgurite.optim.option for a value out of range,
  /// and for a group that was constructed without momentum, since it has no momentum buffer.
  void set_momentum(std::size_t group, double value)
    requires requires(Options& options) { Rule::set_momentum(options, value); }
  {
    Options options = this->groups_.at(group);
    Rule::set_momentum(options, value);
    Rule::check(options);
    if (value != 0 && momentum(group) == 0.0) require_kept(group, options);
    this->groups_[group] = options;
  }

  std::optional<double> weight_decay(std::size_t group) const { return this->groups_.at(group).weight_decay; }
  Options const& options(std::size_t group) const { return this->groups_.at(group); }

  /// Adds a parameter group; the buffers are allocated again. Throws fulgurite.optimizer.twice for a parameter that is
  /// in another group.
  void add_group(std::vector<at::Tensor> const& parameters, Options const& options);
  /// Adds a parameter group with this learning rate and otherwise the options of the first group.
  void add_group(std::vector<at::Tensor> const& parameters, double lr);

  /// Which gradients count as received, to save and restore: for a strategy that runs a step again and undoes its
  /// effects. See libtorch::Arena.
  std::vector<bool> received() { return this->arena_->received(); }
  void set_received(std::vector<bool> const& all) { this->arena_->set_received(all); }

  /// True if all gradients are finite, found in one pass over memory; nullopt if that would wait for a device.
  std::optional<bool> gradients_finite();

  // For a strategy that makes the update itself, in a recording of the step.

  /// The runs of the next update. `counts`: it counts as made, as by `step`.
  std::vector<libtorch::Arena::Run> runs(bool counts);
  /// Updates a run that was counted.
  void update(libtorch::Arena::Run const& run) const;
  /// What an update does to the run `later` steps after this one, with the present options.
  libtorch::TracedUpdate traced(libtorch::Arena::Run const& run, long later = 0) const;
  /// True if a kernel in a graph can do it.
  bool fits_graph(libtorch::Arena::Run const& run) const;

  /// The parameters of all groups, in the order given. Clipping uses their flat gradients.
  libtorch::ArenaParameters parameters() { return libtorch::ArenaParameters(*this->arena_); }

 private:
  ArenaOptimizer() = default;

  /// Throws an Error if a parameter of the group lacks a state that these options need.
  void require_kept(std::size_t group, Options const& options) const;
};

template <class Rule>
ArenaOptimizer<Rule>::ArenaOptimizer(torch::nn::Module const& module, Options const& options) : ArenaOptimizer() {
  add_group(module.parameters(), options);
  for (auto const& parameter : module.named_parameters())
    for (std::size_t i = 0; i != this->arena_->slots().size(); ++i)
      if (this->arena_->slots()[i].parameter.is_same(parameter.value())) this->names_[parameter.key()] = i;
}

template <class Rule>
ArenaOptimizer<Rule>::ArenaOptimizer(std::vector<at::Tensor> const& parameters, Options const& options)
    : ArenaOptimizer() {
  add_group(parameters, options);
}

template <class Rule>
ArenaOptimizer<Rule>::ArenaOptimizer(std::vector<Group<Options>> const& groups) : ArenaOptimizer() {
  for (auto const& group : groups) add_group(group.parameters, group.options);
}

template <class Rule>
void ArenaOptimizer<Rule>::step() {
  this->arena_->update([&](libtorch::Arena::Run const& run, auto const&) { update(run); });
}

template <class Rule>
std::vector<libtorch::Arena::Run> ArenaOptimizer<Rule>::runs(bool counts) {
  std::vector<libtorch::Arena::Run> all;
  this->arena_->update([&](libtorch::Arena::Run const& run, auto const&) { all.push_back(run); }, counts);
  return all;
}

template <class Rule>
void ArenaOptimizer<Rule>::update(libtorch::Arena::Run const& run) const {
  libtorch::pass<Rule::states.size()>(Rule(this->groups_[run.group], run.steps), run,
                                      this->arena_->buffers()[run.buffer]);
}

template <class Rule>
libtorch::TracedUpdate ArenaOptimizer<Rule>::traced(libtorch::Arena::Run const& run, long later) const {
  return libtorch::traced<Rule::states.size()>(Rule(this->groups_[run.group], run.steps + later), run,
                                               this->arena_->buffers()[run.buffer]);
}

template <class Rule>
bool ArenaOptimizer<Rule>::fits_graph(libtorch::Arena::Run const& run) const {
  Rule const rule(this->groups_[run.group], run.steps);
  return libtorch::has_kernel_in_graph(traced(run), libtorch::operators_of<Rule::states.size()>(rule));
}

template <class Rule>
void ArenaOptimizer<Rule>::add_group(std::vector<at::Tensor> const& parameters, Options const& options) {
  Rule::check(options);
  std::vector<at::Tensor> own;
  for (auto const& parameter : parameters) {
    auto const same = [&](at::Tensor const& other) { return other.is_same(parameter); };
    if (std::any_of(this->arena_->parameters().begin(), this->arena_->parameters().end(), same))
      throw libtorch::InTwoGroups(name(), parameter);
    if (std::none_of(own.begin(), own.end(), same)) own.push_back(parameter);
  }
  auto const initial = Rule::initial(options);
  this->arena_->add(own, this->groups_.size(), {initial.begin(), initial.end()});
  this->groups_.push_back(options);
}

template <class Rule>
void ArenaOptimizer<Rule>::add_group(std::vector<at::Tensor> const& parameters, double lr) {
  Options options = this->groups_.empty() ? Options{} : this->groups_.front();
  options.lr = lr;
  add_group(parameters, options);
}

template <class Rule>
std::optional<bool> ArenaOptimizer<Rule>::gradients_finite() {
  for (auto const& buffer : this->arena_->buffers())
    if (!buffer.gradients.is_cpu()) return std::nullopt;
  return this->arena_->all_gradients([](at::Tensor const& flat) { return libtorch::all_finite(flat); });
}

template <class Rule>
void ArenaOptimizer<Rule>::require_kept(std::size_t group, Options const& options) const {
  auto const needed = Rule::initial(options);
  for (auto const& slot : this->arena_->slots())
    for (std::size_t s = 0; slot.group == group && s != needed.size(); ++s)
      if (needed[s] && !this->arena_->keeps(group, s))
        throw Error("fulgurite.optim.option", std::string(name()) + " was made without momentum in group " +
                                                  std::to_string(group) +
                                                  " and keeps no buffer for one: construct it "
                                                  "with one");
}

// After a rule, FULGURITE_ARENA_OPTIMIZER(EXTERN, rule::Adam<AdamOptions, false>) declares that the library contains
// the instantiation of its optimizer; FULGURITE_ARENA_OPTIMIZER(INSTANTIATE, ...) in the body file instantiates it.
#define FULGURITE_ARENA_OPTIMIZER(WHAT, ...)                                                                           \
  FULGURITE_##WHAT(class NamedState<__VA_ARGS__>);                                                                     \
  FULGURITE_##WHAT(void NamedState<__VA_ARGS__>::fold(::fulgurite::StateSaver&));                                      \
  FULGURITE_##WHAT(void NamedState<__VA_ARGS__>::fold(::fulgurite::StateLoader&));                                     \
  FULGURITE_##WHAT(class ArenaOptimizer<__VA_ARGS__>)

FULGURITE_ARENA_OPTIMIZER(EXTERN, rule::Adam<AdamOptions, false>);
FULGURITE_ARENA_OPTIMIZER(EXTERN, rule::Adam<AdamWOptions, true>);

/// The updates of torch::optim::Adam in one pass over flat buffers; see ArenaOptimizer. In a model's
/// configure_optimizers: `return optim::Adam(*this, {.lr = 1e-3});`. States: exp_avg, exp_avg_sq, and max_exp_avg_sq
/// with amsgrad.
class Adam : public ArenaOptimizer<rule::Adam<AdamOptions, false>> {
 public:
  using ArenaOptimizer::ArenaOptimizer;
  FULGURITE_OPTIM_OPTIONS(Adam);
};

/// The updates of torch::optim::AdamW in one pass over flat buffers: `optim::AdamW(*this, {.lr = 1e-3})`. States as
/// Adam's.
class AdamW : public ArenaOptimizer<rule::Adam<AdamWOptions, true>> {
 public:
  using ArenaOptimizer::ArenaOptimizer;
  FULGURITE_OPTIM_OPTIONS(AdamW);
};

FULGURITE_ARENA_OPTIMIZER(EXTERN, rule::RMSprop);

/// The updates of torch::optim::RMSprop in one pass over flat buffers; see ArenaOptimizer. Use it as
/// `optim::RMSprop(*this, {.lr = 0.01})`. States: square_avg, momentum_buffer with momentum, grad_avg if centered.
class RMSprop : public ArenaOptimizer<rule::RMSprop> {
 public:
  using ArenaOptimizer::ArenaOptimizer;
  FULGURITE_OPTIM_OPTIONS(RMSprop);
};

FULGURITE_ARENA_OPTIMIZER(EXTERN, rule::Adagrad);

/// The updates of torch::optim::Adagrad in one pass over flat buffers; see ArenaOptimizer. Use it as
/// `optim::Adagrad(*this, {.lr = 0.01})`. State: sum.
class Adagrad : public ArenaOptimizer<rule::Adagrad> {
 public:
  using ArenaOptimizer::ArenaOptimizer;
  FULGURITE_OPTIM_OPTIONS(Adagrad);
};

FULGURITE_ARENA_OPTIMIZER(EXTERN, rule::SGD);

/// The updates of torch::optim::SGD in one pass over flat buffers; see ArenaOptimizer. Use it as `optim::SGD(*this,
/// {.lr = 0.1, .momentum = 0.9})`. State: momentum_buffer, if momentum is not 0.
class SGD : public ArenaOptimizer<rule::SGD> {
 public:
  using ArenaOptimizer::ArenaOptimizer;
  FULGURITE_OPTIM_OPTIONS(SGD);
};

}  // namespace fulgurite::optim

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/optim/first_order.ipp>
#endif
