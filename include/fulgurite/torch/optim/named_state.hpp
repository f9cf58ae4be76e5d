#pragma once
// What an optimizer over an arena keeps of its parameters, by their names: read, saved, and loaded as a whole or not at
// all.

#include <algorithm>
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

#include <fulgurite/checkpoint/saved_tensor.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/torch/optim/arena.hpp>
#include <fulgurite/torch/optim/arena_saved.hpp>
#include <fulgurite/torch/optim/parameter_state.hpp>
#include <fulgurite/torch/weights/saved_tensor.hpp>

namespace fulgurite::optim {

/// The base of ArenaOptimizer. `Rule` says which states there are, and from what they begin.
template <class Rule>
class NamedState {
 public:
  using Options = typename Rule::Options;
  static constexpr bool state_in_parts = true;  ///< several processes can keep a part of it each

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
  /// Error, and nothing has changed. Options stay the program's; rates and momenta, which schedules move, are loaded.
  /// Of a state in parts that nobody has gathered it is this process's own part, which no other can load.
  template <class Archive>
    requires requires { Archive::loading; }
  void state(Archive& archive) {
    arena_->make_states();
    auto groups = groups_;
    std::vector<Saved> parameters;
    std::optional<SavedPart> part;
    if constexpr (!Archive::loading) {
      for (std::size_t i = 0; i != arena_->slots().size(); ++i) parameters.push_back(saved(i));
      if (!arena_->states().are_whole()) part = own_part(*arena_);
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

 protected:
  NamedState() : arena_(std::make_unique<libtorch::Arena>(Rule::states.size())) {}

  std::unique_ptr<libtorch::Arena> arena_;  ///< ranges of parameters point to it, the optimizer moves
  std::vector<Options> groups_;
  std::map<std::string, std::size_t, std::less<>> names_;

 private:
  using Saved = SavedParameter;

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
    if (!arena_->states().are_whole())
      throw Error("fulgurite.optim.part",
                  "each process keeps a part of this optimizer's state, so that of one parameter is not at hand: read "
                  "it in a file, which has all of it");
    arena_->make_states();
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

  void load(auto& archive, std::vector<Options> const& groups, std::vector<Saved> const& parameters,
            std::optional<SavedPart> const& part) {
    if (part) require_own(*arena_, *part, Rule::name);
    std::string problems;
    auto const differs = [&](std::string const& how) { (problems += problems.empty() ? "" : "; ") += how; };
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
                  "the saved state is of another " + std::string(Rule::name) + ": " + problems +
                      "; groups, parameters and options must be those of the optimizer it is loaded into");
    for (auto const& options : groups) Rule::check(options);
    groups_ = groups;
    for (std::size_t i = 0; i != slots.size(); ++i) slots[i].steps = of[i]->steps;
    if (!part && !arena_->states().part().is_whole())
      return commit(archive, [this, parameters] { restore_own(parameters); });
    std::vector<at::Tensor> to;
    std::vector<SavedTensor> from;
    if (part) {
      to = own_states(*arena_);
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
};

}  // namespace fulgurite::optim
