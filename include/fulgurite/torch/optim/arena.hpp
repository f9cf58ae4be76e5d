#pragma once
// Parameters, gradients and optimizer state in a few flat buffers, so that clearing, clipping and the update are passes
// over memory. arena_layout.hpp defines where each of them is placed.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>

#include <fulgurite/core/archive_tree.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/torch/optim/arena_layout.hpp>
#include <fulgurite/torch/weights/weights.hpp>

namespace fulgurite::libtorch {

/// Owns one set of flat buffers for each element type and device. The parameters given to it keep their identity and
/// become slices of these buffers. Their gradients are slices, too; they are set before backward and stay, so that
/// backward adds to them.
///
/// LibTorch marks a parameter that backward has not reached by an undefined gradient. An arena uses version counters
/// instead: a gradient counts as received from the first write to it after it was last cleared. Writing to p.grad() in
/// place is such a write; p.grad().reset() takes it back. A strategy that replays recorded operators must increment the
/// counters of the gradients that it writes, and of the flat tensor that it clears (Buffer::gradients), as the
/// operators themselves would. If it increments none, the gradients that the recorded step received count as received.
class Arena : public ArenaLayout {
 public:
  /// The slice of a gradient that zero_grad() has left uncleared, and its version then.
  struct Stale {
    at::Tensor slice;
    std::uint32_t version;
  };
  /// Where zero_grad() on this thread lists the gradients that it leaves uncleared. Null: it clears. Set while a graph
  /// is recorded in which backward overwrites the earlier gradients.
  static inline thread_local std::vector<Stale>* to_overwrite = nullptr;

  /// A contiguous range of a buffer in which all parameters take the same step.
  struct Run {
    std::size_t group, buffer;
    std::int64_t begin, end;
    long steps;                            ///< the steps that these parameters have taken so far
    at::Tensor const* gradient = nullptr;  ///< the gradient of the run's only parameter, if it is outside of the buffer
  };

  /// `states`: the number of state tensors that the optimizer keeps for each parameter.
  explicit Arena(std::size_t states) : ArenaLayout(states) {}

  void zero_grad();

  /// Restores the layout, and finds out which gradients were received. The slice of a gradient that was not received is
  /// zero.
  void look();

  /// True for each gradient that counts as received, in the order of the slots. `set_received` restores this after
  /// writes that were undone.
  std::vector<bool> received();
  void set_received(std::vector<bool> const& all);

  /// Calls `f(run, buffer)` for each run of parameters that have a gradient, and adds one to their step counts, unless
  /// `counts` is false. If the arena is in parts, this process updates its own part and receives the others.
  void update(auto&& f, bool counts = true) {
    Mode const mode;
    look_in_mode();
    make_states();
    for (std::size_t b = 0; b != buffers_.size(); ++b) {
      Run run{0, b, 0, 0, -1};
      bool any = false;
      auto const flush = [&] {
        if (run.steps < 0) return;
        any = true;
        run.begin = std::max(run.begin, part().begin(buffers_[b].size));
        run.end = std::min(run.end, part().end(buffers_[b].size));
        if (run.begin < run.end) f(std::as_const(run), buffers_[b]);
        run.steps = -1;
      };
      for (auto const i : buffers_[b].slots) {
        auto& slot = slots_[i];
        if (!slot.received) {
          flush();
          continue;
        }
        bool const elsewhere = is_elsewhere(slot);
        if (run.steps != slot.steps || run.group != slot.group || elsewhere || run.gradient) {
          flush();
          run = {slot.group, b, slot.begin, 0, slot.steps, elsewhere ? &slot.held() : nullptr};
        }
        run.end = slot.begin + aligned(slot.parameter.numel(), buffers_[b].parameters);
        if (!counts) continue;
        ++slot.steps;
        slot.parameter.unsafeGetTensorImpl()->bump_version();  // so autograd notices a backward through the old value
      }
      flush();
      if (any && counts && !part().is_whole()) part().gather(buffers_[b].parameters);
    }
  }

  /// Calls `f(flat_gradients)` for each buffer in which at least one gradient was received.
  void each_gradient(auto&& f) {
    gather_gradients();
    look();
    for (auto& buffer : buffers_) buffer.taken = true;
    for (auto const& buffer : buffers_)
      for (auto const i : buffer.slots)
        if (slots_[i].received) {
          f(buffer.gradients_too);
          break;
        }
  }

  /// True if f(gradients) holds for each buffer; or, for a buffer with gradients outside of it, for each of its
  /// gradients. Flat gradients that were not received are included; they are zero. This is called in every step, so
  /// single parameters are visited only if some gradient is outside of the buffer.
  bool all_gradients(auto&& f) {
    for (auto const& slot : slots_)
      if (!slot.held().is_same(slot.gradient)) {
        look();
        break;
      }
    for (auto const& buffer : buffers_)
      if (!(buffer.some_stay ? each_holds(buffer, f) : f(buffer.gradients))) return false;
    return true;
  }

  /// Calls `f(gradient)` for each parameter that has received one, in the order of the parameters.
  void each_received(auto&& f) const {
    for (auto const& slot : slots_)
      if (slot.received) f(slot.gradient);
  }

 private:
  void look_in_mode();
  void gather_gradients() {
    Mode const mode;
    gather_into_buffers();
  }
  void clear_each(Buffer const& buffer);
  void clear_all(Buffer& buffer);
  void leave_uncleared(Buffer const& buffer);
  bool each_holds(Buffer const& buffer, auto& f) const {
    for (auto const i : buffer.slots)
      if (auto const& gradient = slots_[i].held(); gradient.defined() && !f(gradient)) return false;
    return true;
  }
};

// The parameters of an arena as a range, for loops, clipping and strategies.

/// The parameters of an arena as a range that also gives their flat gradients, which clipping uses.
class ArenaParameters : public std::span<at::Tensor const> {
 public:
  explicit ArenaParameters(Arena& arena);

  void each_gradient(auto&& f) const { arena_->each_gradient(f); }
  /// Calls `f` for each gradient separately, which the norm of norms needs.
  void each_received(auto&& f) const { arena_->each_received(f); }
  /// True if the parameter at this position had a gradient when this range was made.
  bool has_gradient(std::size_t position) const;
  /// For strategies that exchange gradients with other processes.
  Arena& arena() const { return *arena_; }
  bool no_gradients() const;

 private:
  Arena* arena_;
};

}  // namespace fulgurite::libtorch

namespace fulgurite::optim {

// What an archive holds for an optimizer over an arena.

/// One kind of state of one parameter.
struct SavedState {
  std::string name = {};
  SavedTensor value = {};
  void state(auto& archive);
};
/// A parameter, by its name. Contains no states if they are in parts and not gathered.
struct SavedParameter {
  std::string name = {};
  std::size_t group = 0;
  long steps = 0;
  std::vector<SavedState> states = {};
  void state(auto& archive);
};
/// One process's part of the states: those of all buffers, one after the other.
struct SavedPart {
  int mine = 0, of = 1;
  std::vector<SavedTensor> states = {};
  void state(auto& archive);
};

/// The states that this process keeps, buffer by buffer.
std::vector<at::Tensor> own_states(libtorch::Arena const& arena);
/// The part that this process keeps, in its archived form.
SavedPart own_part(libtorch::Arena const& arena);
/// Throws [fulgurite.optim.part] if `part` is not the part that this process keeps.
void require_own(libtorch::Arena const& arena, SavedPart const& part, std::string_view optimizer);

// The state of one parameter, for a program to read.

/// The number of steps that the parameter has taken, and its state tensors under torch.optim's names. The tensors are
/// slices of the buffers: writing to them changes the optimizer's state.
struct ParameterState {
  long step = 0;
  std::map<std::string, at::Tensor, std::less<>> tensors = {};

  at::Tensor const& operator[](std::string_view name) const;
};

// An optimizer's state over an arena, by the names of its parameters: read, saved, and loaded completely or not at all.

/// The base of ArenaOptimizer. `Rule` defines the states and their initial values.
template <class Rule>
class NamedState {
 public:
  using Options = typename Rule::Options;
  static constexpr bool state_in_parts = true;  ///< each of several processes can keep a part of the state

  /// The state of one parameter, by the module's name for it ("0.weight"), or by its position ("3") if the optimizer
  /// was constructed from tensors.
  ParameterState state(std::string_view parameter) const;
  ParameterState state(at::Tensor const& parameter) const;

  /// For a strategy that distributes the state over processes, and gathers it for a file: see libtorch::Arena.
  void keep_part(libtorch::ArenaPart part) { arena_->keep_part(std::move(part)); }
  void gather_state(bool keeps) { arena_->gather_states(keeps); }
  void drop_gathered() { arena_->drop_gathered(); }
  /// The number of state elements that this process keeps.
  std::int64_t kept_numbers() const { return arena_->kept_numbers(); }

  /// Saves the options of the groups and, for each parameter by its name, its step count and states. Loading needs the
  /// same names, groups, shapes and element types, in any order, and each state that the program's options need; if
  /// something differs or is missing it throws an Error and changes nothing. The program's options are kept; learning
  /// rates and momenta, which schedules change, are loaded. If the state is in parts and not gathered, this saves the
  /// process's own part, which no other process can load.
  template <class Archive>
    requires requires { Archive::loading; }
  void state(Archive& archive) {
    fold(archive);
  }

 protected:
  /// The same as `state`, without a constraint: g++ 12 and clang mangle the name of a constrained function differently.
  void fold(auto& archive);

  NamedState() : arena_(std::make_unique<libtorch::Arena>(Rule::states.size())) {}

  std::unique_ptr<libtorch::Arena> arena_;  ///< on the heap: ranges of parameters point to it
  std::vector<Options> groups_;
  std::map<std::string, std::size_t, std::less<>> names_;

 private:
  using Saved = SavedParameter;

  [[noreturn]] static void unknown(std::string const& what);
  std::size_t position(std::string_view parameter) const;
  std::string name_of(std::size_t position) const;
  std::vector<libtorch::Arena::Slot> const& whole_slots() const;
  static ParameterState state_of(libtorch::Arena::Slot const& slot);

  Saved saved(std::size_t position) const;

  void load(auto& archive, std::vector<Options> groups, std::vector<Saved> const& parameters,
            std::optional<SavedPart> const& part);
  /// Restores this process's part from whole states.
  void restore_own(std::vector<Saved> const& parameters);
  /// The index of the state with this name among the states of a group.
  std::optional<std::size_t> kind(std::size_t group, std::string_view name) const;
  /// Calls `differs(how)` for each reason why the saved state of a parameter does not fit the parameter here.
  void compare(libtorch::Arena::Slot const& slot, Saved const& there, bool whole, auto const& differs) const;
};

template <class Rule>
ParameterState NamedState<Rule>::state(std::string_view parameter) const {
  return state_of(whole_slots()[position(parameter)]);
}

template <class Rule>
ParameterState NamedState<Rule>::state(at::Tensor const& parameter) const {
  for (auto const& slot : whole_slots())
    if (slot.parameter.is_same(parameter)) return state_of(slot);
  unknown("a tensor");
}

template <class Rule>
void NamedState<Rule>::fold(auto& archive) {
  using Archive = std::remove_reference_t<decltype(archive)>;
  arena_->make_states();
  auto groups = groups_;
  std::vector<Saved> parameters;
  std::optional<SavedPart> part;
  if constexpr (!Archive::loading) {
    for (std::size_t i = 0; i != arena_->slots().size(); ++i) parameters.push_back(saved(i));
    if (!arena_->has_whole_states()) part = own_part(*arena_);
  }
  archive("groups", groups)("parameters", parameters);
  if constexpr (!Archive::loading) {
    if (part) archive("part", *part);
  } else {
    if constexpr (requires { archive.has("part"); })
      if (archive.has("part")) archive("part", part.emplace());
    load(archive, std::move(groups), parameters, part);
  }
}

template <class Rule>
[[noreturn]] void NamedState<Rule>::unknown(std::string const& what) {
  throw Error("fulgurite.optim.unknown_parameter",
              what + " is not among this optimizer's parameters: name one as the module does, or by its position");
}

template <class Rule>
std::size_t NamedState<Rule>::position(std::string_view parameter) const {
  if (auto const found = names_.find(parameter); found != names_.end()) return found->second;
  for (std::size_t i = 0; i != arena_->slots().size(); ++i)
    if (parameter == std::to_string(i)) return i;
  unknown("'" + std::string(parameter) + "'");
}

template <class Rule>
std::string NamedState<Rule>::name_of(std::size_t position) const {
  for (auto const& [name, where] : names_)
    if (where == position) return name;
  return std::to_string(position);
}

template <class Rule>
std::vector<libtorch::Arena::Slot> const& NamedState<Rule>::whole_slots() const {
  if (!arena_->has_whole_states())
    throw Error("fulgurite.optim.part",
                "each process keeps only a part of this optimizer's state, so the state of one parameter cannot be "
                "read here: read it from a checkpoint, which has all of it");
  arena_->make_states();
  return arena_->slots();
}

template <class Rule>
ParameterState NamedState<Rule>::state_of(libtorch::Arena::Slot const& slot) {
  ParameterState state{slot.steps, {}};
  for (std::size_t s = 0; s != Rule::states.size(); ++s)
    if (slot.states[s].defined()) state.tensors.emplace(Rule::states[s], slot.states[s]);
  return state;
}

template <class Rule>
typename NamedState<Rule>::Saved NamedState<Rule>::saved(std::size_t position) const {
  auto const& slot = arena_->slots()[position];
  Saved all{name_of(position), slot.group, slot.steps, {}};
  for (auto const& [name, tensor] : state_of(slot).tensors)
    all.states.push_back({name, libtorch::saved(tensor).written_last()});
  return all;
}

template <class Rule>
void NamedState<Rule>::load(auto& archive, std::vector<Options> groups, std::vector<Saved> const& parameters,
                            std::optional<SavedPart> const& part) {
  if (part) require_own(*arena_, *part, Rule::name);
  std::string problems;
  auto const differs = [&](std::string const& how) { append_item(problems, how, "; "); };
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
      else compare(slots[i], *found, !part, differs);
      of[i] = found == parameters.end() ? nullptr : &*found;
    }
  if (!problems.empty())
    throw Error("fulgurite.optim.state_mismatch",
                "the saved state is of another " + std::string(Rule::name) + ": " + problems +
                    "; groups, parameters and options must be those of the optimizer it is loaded into");
  // A group that was made without momentum has no buffer for that of the file.
  if constexpr (requires(Options& options) { Rule::set_momentum(options, 0.0); })
    for (std::size_t g = 0; g != groups.size(); ++g) {
      auto const needed = Rule::initial(groups[g]);
      for (std::size_t s = 0; s != needed.size(); ++s)
        if (needed[s] && !arena_->keeps(g, s)) Rule::set_momentum(groups[g], 0.0);
    }
  for (auto const& options : groups) Rule::check(options);
  groups_ = std::move(groups);
  for (std::size_t i = 0; i != slots.size(); ++i) slots[i].steps = of[i]->steps;
  if (!part && !arena_->part().is_whole()) return commit(archive, [this, parameters] { restore_own(parameters); });
  std::vector<at::Tensor> to;
  std::vector<SavedTensor> from;
  if (part) {
    to = own_states(*arena_);
    from = part->states;
  } else {
    for (std::size_t i = 0; i != slots.size(); ++i) {
      auto const tensors = state_of(slots[i]).tensors;
      for (auto const& state : of[i]->states) {
        auto const here = tensors.find(state.name);
        if (here == tensors.end()) continue;  // no option here needs it
        to.push_back(here->second);
        from.push_back(state.value);
      }
    }
  }
  commit(archive, [to = std::move(to), from = std::move(from)] { libtorch::restore(to, from); });
}

template <class Rule>
void NamedState<Rule>::restore_own(std::vector<Saved> const& parameters) {
  for (auto const& one : parameters) {
    auto const& slot = arena_->slots()[position(one.name)];
    if (!arena_->own(slot)) continue;
    for (auto const& state : one.states) {
      auto const where = kind(slot.group, state.name);
      if (!where) continue;
      auto const whole = at::empty_like(slot.gradient);
      libtorch::restore(whole, state.value);
      arena_->put_own(slot, *where, whole);
    }
  }
}

template <class Rule>
std::optional<std::size_t> NamedState<Rule>::kind(std::size_t group, std::string_view name) const {
  for (std::size_t s = 0; s != Rule::states.size(); ++s)
    if (Rule::states[s] == name && arena_->keeps(group, s)) return s;
  return std::nullopt;
}

template <class Rule>
void NamedState<Rule>::compare(libtorch::Arena::Slot const& slot, Saved const& there, bool whole,
                               auto const& differs) const {
  if (there.group != slot.group) return differs("'" + there.name + "' is in group " + std::to_string(there.group));
  if (there.steps < 0) differs("'" + there.name + "' has taken " + std::to_string(there.steps) + " steps");
  for (std::size_t s = 0; whole && s != Rule::states.size(); ++s) {
    auto const is_it = [&](auto const& state) { return state.name == Rule::states[s]; };
    if (arena_->keeps(slot.group, s) && std::ranges::none_of(there.states, is_it))
      differs("of '" + there.name + "' it has no '" + std::string(Rule::states[s]) + "', which the options here need");
  }
  for (auto const& [name, value] : there.states) {
    if (std::ranges::find(Rule::states, name) == Rule::states.end())
      differs("of '" + there.name + "' it has a '" + name + "'");
    else if (auto const& like = slot.gradient; !libtorch::fits(like, value))
      differs("'" + name + "' of '" + there.name + "' is " + value.description() + ", here of type " +
              std::string(libtorch::element_name(like.scalar_type(), there.name)) + " " +
              libtorch::shape_text(like.sizes()));
  }
}

}  // namespace fulgurite::optim

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/optim/arena.ipp>
#endif
