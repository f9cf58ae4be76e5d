#pragma once
// An optimizer over an arena, in the shape that the loops drive: parameter groups, rates, one pass over memory in a
// step, and a state by name.

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <torch/nn/module.h>

#include <fulgurite/checkpoint/saved_tensor.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/torch/optim/arena.hpp>
#include <fulgurite/torch/optim/arena_saved.hpp>
#include <fulgurite/torch/optim/finite.hpp>
#include <fulgurite/torch/optim/pass.hpp>
#include <fulgurite/torch/weights/averaging.hpp>

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

/// What an optimizer keeps of one parameter: the steps it has taken, and tensors by the names that torch.optim gives
/// them. They are slices of the buffers: what is written to them is written to the optimizer.
struct ParameterState {
  long step = 0;
  std::map<std::string, at::Tensor, std::less<>> tensors = {};

  at::Tensor const& operator[](std::string_view name) const {
    auto const found = tensors.find(name);
    if (found == tensors.end())
      throw Error("fulgurite.optim.state_name",
                  "this optimizer keeps no '" + std::string(name) + "' with its present options");
    return found->second;
  }
};

/// Updates parameters, which become slices of a few flat buffers, as do their gradients: clearing is one operation,
/// clipping one, and the update one pass. The steps are those of torch::optim, bit for bit on x86 CPUs for float and
/// double (LibTorch 2.11): same operations, same order, same rounding. Different are
///   - gradients: they stay where they are and are added to, so that -0 becomes 0; `p.grad()` is defined, and zero,
///     where backward did not reach a parameter. Such a parameter is left alone all the same, as by torch::optim (see
///     libtorch::Arena);
///   - a parameter that is listed twice in a group (a shared module): it is stepped once;
///   - sparse gradients, which become dense;
///   - a parameter that two optimizers update: it lies in the arena of the one that looked last, and is copied over
///     when the other does. Where both were cleared and no backward reached it, it counts for the second as having a
///     gradient of zero.
/// Everybody keeps using the module as before: loading weights, to(device), freezing, taking p.grad(), even set_data or
/// Module::zero_grad. Where that takes a tensor out of the buffers it is copied back in at the next step, which costs
/// time but no gradient.
template <class Rule>
class ArenaOptimizer {
 public:
  using Options = typename Rule::Options;
  static constexpr bool needs_closure = false;
  static constexpr bool stable_gradients = true;
  static constexpr bool state_in_parts = true;  ///< several processes can keep a part of its state each
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

  /// Adds a parameter group. The buffers are made anew.
  void add_group(std::vector<at::Tensor> const& parameters, Options const& options) {
    Rule::check(options);
    std::vector<at::Tensor> own;
    for (auto const& parameter : parameters) {
      auto const same = [&](at::Tensor const& other) { return other.is_same(parameter); };
      if (std::any_of(arena_->parameters().begin(), arena_->parameters().end(), same))
        throw Error("fulgurite.optim.two_groups",
                    "a parameter is in two groups of one optimizer: give it to one of them");
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

  /// What the optimizer keeps of one parameter, which is called by the module's name for it ("0.weight"), or by its
  /// position ("3") if the optimizer was given tensors.
  ParameterState state(std::string_view parameter) const { return state_of(whole_slots()[position(parameter)]); }
  ParameterState state(at::Tensor const& parameter) const {
    for (auto const& slot : whole_slots())
      if (slot.parameter.is_same(parameter)) return state_of(slot);
    unknown("a tensor");
  }

  /// For a strategy that shares the state out between processes, and gathers it for a file: see libtorch::Arena.
  void keep_part(libtorch::ArenaPart part) { arena_->keep_part(std::move(part)); }
  void gather_state(bool keeps) { arena_->gather_states(keeps); }
  void drop_gathered() { arena_->drop_gathered(); }
  /// How many numbers of state this process keeps.
  std::int64_t kept_numbers() const { return arena_->states().numbers(arena_->buffers()); }

  /// Saves the options of the groups and, for each parameter by its name, its steps and its state. Loading needs the
  /// same names, groups, kinds of state, shapes and element types, in any order; if something differs it throws an
  /// Error, and nothing has changed. Of a state in parts that nobody has gathered it is this process's own part, which
  /// no other can load.
  template <class Archive>
    requires requires { Archive::loading; }
  void state(Archive& archive) {
    arena_->make_states();
    auto groups = groups_;
    std::vector<Saved> parameters;
    std::optional<SavedPart> part;
    if constexpr (!Archive::loading) {
      for (std::size_t i = 0; i != arena_->slots().size(); ++i) parameters.push_back(saved(i));
      if (!arena_->states().are_whole()) part = own_part();
    }
    archive("groups", groups)("parameters", parameters);
    if constexpr (!Archive::loading) {
      if (part) archive("part", *part);
    } else {
      if constexpr (requires { archive.has("part"); })
        if (archive.has("part")) archive("part", part.emplace());
      load(archive, groups, parameters, part);
    }
  }

 private:
  using Saved = SavedParameter;

  static Options with_rate(double lr) {
    Options options;
    options.lr = lr;
    return options;
  }
  ArenaOptimizer() : arena_(std::make_unique<libtorch::Arena>(Rule::states.size())) {}

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
  std::vector<libtorch::Arena::Slot> const& whole_slots() const {
    arena_->make_states();
    if (!arena_->states().are_whole())
      throw Error("fulgurite.optim.part",
                  "each process keeps a part of this optimizer's state, so that of one parameter is not at hand: read "
                  "it in a file, which has all of it");
    return arena_->slots();
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
    for (auto const& [name, tensor] : state_of(slot).tensors)
      all.states.push_back({name, libtorch::saved(tensor).written_last()});
    return all;
  }

  std::vector<at::Tensor> own_states() const {
    std::vector<at::Tensor> all;
    for (auto const& buffer : arena_->buffers())
      for (auto const& flat : buffer.states)
        if (flat.defined()) all.push_back(flat);
    return all;
  }
  SavedPart own_part() const {
    SavedPart part{arena_->states().part().mine, arena_->states().part().of, {}};
    for (auto const& flat : own_states()) part.states.push_back(libtorch::saved(flat).written_last());
    return part;
  }
  void require_own(SavedPart const& part) const {
    auto const own = own_states();
    bool fits = part.mine == arena_->states().part().mine && part.of == arena_->states().part().of &&
                part.states.size() == own.size();
    for (std::size_t i = 0; fits && i != own.size(); ++i) fits = libtorch::fits(own[i], part.states[i]);
    if (!fits)
      throw Error("fulgurite.optim.part",
                  "the saved state of " + std::string(name()) + " is the part of rank " + std::to_string(part.mine) +
                      " of " + std::to_string(part.of) +
                      " alone, as a rank writes it that has failed by itself: go on from an earlier file, or begin "
                      "anew with its weights by load_weights(model, file)");
  }

  void load(auto& archive, std::vector<Options> const& groups, std::vector<Saved> const& parameters,
            std::optional<SavedPart> const& part) {
    if (part) require_own(*part);
    std::string problems;
    auto const differs = [&](std::string const& how) { problems += (problems.empty() ? "" : "; ") + how; };
    auto& slots = arena_->slots();
    std::vector<Saved const*> of(slots.size());
    if (groups.size() != groups_.size() || parameters.size() != slots.size())
      differs(std::to_string(parameters.size()) + " parameters in " + std::to_string(groups.size()) + " groups, here " +
              std::to_string(slots.size()) + " in " + std::to_string(groups_.size()));
    else
      for (std::size_t i = 0; i != slots.size(); ++i) {
        auto const named = name_of(i);
        auto const found =
            std::find_if(parameters.begin(), parameters.end(), [&](Saved const& one) { return one.name == named; });
        if (found == parameters.end()) differs("no '" + named + "' is in it");
        else compare(slots[i], *found, groups, !part, differs);
        of[i] = found == parameters.end() ? nullptr : &*found;
      }
    if (!problems.empty())
      throw Error("fulgurite.optim.state_mismatch",
                  "the saved state is of another " + std::string(name()) + ": " + problems +
                      "; groups, parameters and options must be those of the optimizer it is loaded into");
    for (auto const& options : groups) Rule::check(options);
    groups_ = groups;
    for (std::size_t i = 0; i != slots.size(); ++i) slots[i].steps = of[i]->steps;
    if (!part && !arena_->states().part().is_whole())
      return commit(archive, [this, parameters] { restore_own(parameters); });
    std::vector<at::Tensor> to;
    std::vector<SavedTensor> from;
    if (part) {
      to = own_states();
      from = part->states;
    } else {
      for (std::size_t i = 0; i != slots.size(); ++i) {
        auto const tensors = state_of(slots[i]).tensors;
        for (auto const& state : of[i]->states) {
          to.push_back(tensors.at(state.name));
          from.push_back(state.value);
        }
      }
    }
    commit(archive, [to = std::move(to), from = std::move(from)] { libtorch::restore(to, from); });
  }
  /// Of whole states, what this process keeps of them.
  void restore_own(std::vector<Saved> const& parameters) {
    for (auto const& one : parameters) {
      auto const& slot = arena_->slots()[position(one.name)];
      auto const& buffer = arena_->buffers()[slot.buffer];
      if (!arena_->states().own(slot, buffer)) continue;
      for (auto const& state : one.states) {
        auto const whole = at::empty_like(slot.gradient);
        libtorch::restore(whole, state.value);
        arena_->states().put_own(slot, buffer, *kind(slot.group, state.name), whole);
      }
    }
  }
  /// Which of the states of a group has this name.
  std::optional<std::size_t> kind(std::size_t group, std::string_view name) const {
    for (std::size_t s = 0; s != Rule::states.size(); ++s)
      if (Rule::states[s] == name && arena_->states().keeps(group, s)) return s;
    return std::nullopt;
  }
  /// differs(how) for all that keeps what was saved of a parameter from being what is kept of it here.
  void compare(libtorch::Arena::Slot const& slot, Saved const& there, std::vector<Options> const& groups, bool whole,
               auto const& differs) const {
    if (there.group != slot.group) return differs("'" + there.name + "' is in group " + std::to_string(there.group));
    if (there.steps < 0) differs("'" + there.name + "' has taken " + std::to_string(there.steps) + " steps");
    std::size_t kept = 0;
    for (std::size_t s = 0; s != Rule::states.size(); ++s) kept += arena_->states().keeps(slot.group, s) ? 1 : 0;
    if (whole && there.states.size() != kept) differs("of '" + there.name + "' it has other kinds of state");
    auto const needed = Rule::initial(groups[slot.group]);
    for (std::size_t s = 0; s != needed.size(); ++s)
      if (needed[s] && !arena_->states().keeps(slot.group, s))
        differs("its options need a '" + std::string(Rule::states[s]) + "' of '" + there.name + "'");
    for (auto const& [name, value] : there.states) {
      if (!kind(slot.group, name)) differs("of '" + there.name + "' it has a '" + name + "'");
      else if (auto const& like = slot.gradient; !libtorch::fits(like, value))
        differs("'" + name + "' of '" + there.name + "' is " + value.description() + ", here of type " +
                std::string(libtorch::element_name(like.scalar_type(), there.name)) + " " +
                libtorch::shape_text(like.sizes()));
    }
  }

  std::unique_ptr<libtorch::Arena> arena_;  ///< ranges of parameters point to it, the optimizer moves
  std::vector<Options> groups_;
  std::map<std::string, std::size_t, std::less<>> names_;
};

}  // namespace fulgurite::optim
