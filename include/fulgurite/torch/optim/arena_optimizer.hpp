#pragma once
// An optimizer over an arena, in the shape that the loops drive: groups, rates, one pass a step, state by name.

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <fulgurite/checkpoint/saved_value.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/torch/arena.hpp>
#include <fulgurite/torch/averaging.hpp>
#include <fulgurite/torch/optim/pass.hpp>

namespace fulgurite::optim {

inline void require_option(bool holds, std::string_view optimizer, std::string_view option, double value) {
  if (holds) return;
  throw Error("fulgurite.optim.option", std::string(optimizer) + "'s " + std::string(option) + " = " + std::to_string(value) +
                                            " is not allowed: rates, eps, decays and momenta are not negative, betas are in [0, 1)");
}

/// Parameters with options of their own: `optim::Adam({{body->parameters(), {.lr = 1e-4}}, {head->parameters(), {.lr = 1e-3}}})`.
template <class Options>
struct Group {
  std::vector<at::Tensor> parameters;
  Options options = {};
};

/// What an optimizer keeps of one parameter: the steps it has taken, and tensors by the names that torch.optim gives them. They are slices
/// of the buffers: what is written to them is written to the optimizer.
struct ParameterState {
  long step = 0;
  std::map<std::string, at::Tensor, std::less<>> tensors = {};

  at::Tensor const& operator[](std::string_view name) const {
    auto const found = tensors.find(name);
    if (found == tensors.end())
      throw Error("fulgurite.optim.state_name", "this optimizer keeps no '" + std::string(name) + "' with its present options");
    return found->second;
  }
};

/// Updates parameters, which become slices of a few flat buffers, as do their gradients: clearing is one operation, clipping one, and the
/// update one pass. The steps are those of torch::optim, bit for bit on x86 CPUs for float and double (LibTorch 2.11): same operations,
/// same order, same rounding. Different are
///   - gradients: they stay where they are and are added to, so that -0 becomes 0; `p.grad()` is defined, and zero, where backward did not
///     reach a parameter. Such a parameter is left alone all the same, as by torch::optim (see libtorch::Arena);
///   - the 2-norm that clipping divides by: one sum instead of a sum of sums;
///   - a parameter that is listed twice in a group (a shared module): it is stepped once;
///   - sparse gradients, which become dense;
///   - a parameter that two optimizers update: it lies in the arena of the one that looked last, and is copied over when the other does.
///     Where both were cleared and no backward reached it, it counts for the second as having a gradient of zero.
/// Everybody keeps using the module as before: loading weights, to(device), freezing, taking p.grad(), even set_data or Module::zero_grad.
/// Where that takes a tensor out of the buffers it is copied back in at the next step, which costs time but no gradient.
template <class Rule>
class ArenaOptimizer {
 public:
  using Options = typename Rule::Options;
  static constexpr bool needs_closure = false;
  static constexpr bool stable_gradients = true;
  static constexpr std::string_view name() { return Rule::name; }

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
  ArenaOptimizer(std::vector<Group<Options>> const& groups) : ArenaOptimizer() {
    for (auto const& group : groups) add_group(group.parameters, group.options);
  }

  /// Gradients become zero in place.
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
  std::optional<double> weight_decay(std::size_t group) const { return groups_.at(group).weight_decay; }
  Options const& options(std::size_t group) const { return groups_.at(group); }

  /// A further parameter group. Buffers are made anew.
  void add_group(std::vector<at::Tensor> const& parameters, Options const& options) {
    Rule::check(options);
    std::vector<at::Tensor> own;
    for (auto const& parameter : parameters) {
      auto const same = [&](at::Tensor const& other) { return other.is_same(parameter); };
      if (std::any_of(arena_->parameters().begin(), arena_->parameters().end(), same))
        throw Error("fulgurite.optim.two_groups", "a parameter is in two groups of one optimizer: give it to one of them");
      if (std::none_of(own.begin(), own.end(), same)) own.push_back(parameter);
    }
    auto const initial = Rule::initial(options);
    arena_->add(own, groups_.size(), {initial.begin(), initial.end()});
    groups_.push_back(options);
  }
  /// With this rate; its other options are those of the first.
  void add_group(std::vector<at::Tensor> const& parameters, double lr) {
    Options options = groups_.empty() ? Options{} : groups_.front();
    options.lr = lr;
    add_group(parameters, options);
  }

  /// All groups' parameters, in the order given. Clipping takes their gradients as a whole.
  libtorch::ArenaParameters parameters() { return libtorch::ArenaParameters(*arena_); }

  /// By the module's name for it ("0.weight"), or by its position ("3") where the optimizer was given tensors.
  ParameterState state(std::string_view parameter) const { return state_of(arena_->slots()[position(parameter)]); }
  ParameterState state(at::Tensor const& parameter) const {
    for (auto const& slot : arena_->slots())
      if (slot.parameter.is_same(parameter)) return state_of(slot);
    unknown("a tensor");
  }

  /// Options of the groups, and of each parameter, by its name, the steps and the state. Loading demands the same names, groups, kinds of
  /// state, shapes and element types, whatever the order; else it is an Error, and nothing has changed.
  template <class Archive>
    requires requires { Archive::loading; }
  void state(Archive& archive) {
    auto groups = groups_;
    std::vector<Saved> parameters;
    if constexpr (!Archive::loading)
      for (std::size_t i = 0; i != arena_->slots().size(); ++i) parameters.push_back(saved(i));
    archive("groups", groups)("parameters", parameters);
    if constexpr (Archive::loading) load(groups, parameters);
  }

 private:
  struct SavedState {
    std::string name = {};
    SavedValue value = {};
    void state(auto& archive) { archive("name", name)("value", value); }
  };
  /// One parameter in an archive.
  struct Saved {
    std::string name = {};
    std::size_t group = 0;
    long steps = 0;
    std::vector<SavedState> states = {};
    void state(auto& archive) { archive("name", name)("group", group)("steps", steps)("states", states); }
  };

  ArenaOptimizer() : arena_(std::make_unique<libtorch::Arena>(Rule::states.size())) {}

  [[noreturn]] static void unknown(std::string const& what) {
    throw Error("fulgurite.optim.unknown_parameter",
                what + " is not among this optimizer's parameters: name one as the module does, or by its position");
  }
  std::size_t position(std::string_view parameter) const {
    if (auto const found = names_.find(parameter); found != names_.end()) return found->second;
    for (std::size_t i = 0; i != arena_->slots().size(); ++i)
      if (parameter == std::to_string(i)) return i;
    unknown("'" + std::string(parameter) + "'");
  }
  std::string name_of(std::size_t position) const {
    for (auto const& [name, where] : names_)
      if (where == position) return name;
    return std::to_string(position);
  }
  static ParameterState state_of(libtorch::Arena::Slot const& slot) {
    ParameterState state{slot.steps, {}};
    for (std::size_t s = 0; s != Rule::states.size(); ++s)
      if (slot.states[s].defined()) state.tensors.emplace(Rule::states[s], slot.states[s]);
    return state;
  }

  Saved saved(std::size_t position) const {
    auto const& slot = arena_->slots()[position];
    Saved all{name_of(position), slot.group, slot.steps, {}};
    for (auto const& [name, tensor] : state_of(slot).tensors) all.states.push_back({name, libtorch::saved(tensor)});
    return all;
  }

  void load(std::vector<Options> const& groups, std::vector<Saved> const& parameters) {
    auto const refuse = [](std::string const& why) {
      throw Error("fulgurite.optim.state_mismatch", "the saved state is of another " + std::string(name()) + ": " + why +
                                                        "; groups, parameters and options must be those of the optimizer it is loaded into");
    };
    auto& slots = arena_->slots();
    if (groups.size() != groups_.size() || parameters.size() != slots.size())
      refuse(std::to_string(parameters.size()) + " parameters in " + std::to_string(groups.size()) + " groups, here " + std::to_string(slots.size()) + " in " +
             std::to_string(groups_.size()));
    for (auto const& options : groups) Rule::check(options);
    std::vector<Saved const*> of(slots.size());
    for (std::size_t i = 0; i != slots.size(); ++i) {
      auto const named = name_of(i);
      auto const found = std::find_if(parameters.begin(), parameters.end(), [&](Saved const& one) { return one.name == named; });
      if (found == parameters.end()) refuse("no '" + named + "' is in it");
      if (found->group != slots[i].group) refuse("'" + named + "' is in group " + std::to_string(found->group));
      require_same_states(state_of(slots[i]), *found, refuse);
      of[i] = &*found;
    }
    for (std::size_t i = 0; i != slots.size(); ++i) {
      slots[i].steps = of[i]->steps;
      auto tensors = state_of(slots[i]).tensors;
      for (auto const& state : of[i]->states) libtorch::restore(tensors.at(state.name), state.value);
    }
    groups_ = groups;
  }
  static void require_same_states(ParameterState const& here, Saved const& there, auto const& refuse) {
    if (there.states.size() != here.tensors.size()) refuse("of '" + there.name + "' it has other kinds of state");
    for (auto const& [name, value] : there.states) {
      auto const found = here.tensors.find(name);
      if (found == here.tensors.end()) refuse("of '" + there.name + "' it has a '" + name + "'");
      auto const& tensor = found->second;
      if (value.dtype != libtorch::element_name(tensor.scalar_type(), there.name) || value.shape != tensor.sizes().vec() ||
          value.bytes.size() != tensor.nbytes())
        refuse("'" + name + "' of '" + there.name + "' is " + value.dtype + " " + libtorch::shape_text(value.shape) + ", here of type " +
               std::string(libtorch::element_name(tensor.scalar_type(), there.name)) + " " + libtorch::shape_text(tensor.sizes()));
    }
  }

  std::unique_ptr<libtorch::Arena> arena_;  ///< ranges of parameters point to it, the optimizer moves
  std::vector<Options> groups_;
  std::map<std::string, std::size_t, std::less<>> names_;
};

}  // namespace fulgurite::optim
