#pragma once
// What takes time in a run, by name: the actions that a profiler is told of.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/fixed_string.hpp>
#include <fulgurite/core/type_name.hpp>

namespace fulgurite {

/// What an action is a part of, for the one sentence that says where the time goes.
enum class RunPart : std::uint8_t {
  data,        ///< a loader is waited for
  transfer,    ///< a batch goes to its device
  step,        ///< training_step
  backward,    ///< gradients
  update,      ///< the optimizer, clipping and clearing
  exchange,    ///< ranks wait for each other
  evaluation,  ///< validation_step, test_step, predict_step
  hooks,       ///< hooks of callbacks, model, strategy
  logging,     ///< rows for loggers
  saving,      ///< checkpoints
  own,         ///< what a program names itself: ctx.profile("...")
  loop         ///< what surrounds all others: an epoch, a validation
};
/// How many there are.
inline constexpr std::size_t parts_of_a_run = 12;

/// Something that takes time. A profiler knows it again by its number: each action of a program has one, from 0 on.
struct ProfiledAction {
  std::size_t id = 0;
  char const* name = "";  ///< Lightning's where it has one: "[Callback]EarlyStopping.on_train_epoch_end"
  RunPart part = RunPart::own;
  bool counts = true;  ///< false: time that belongs to one which is counted elsewhere
};

namespace action {

inline std::size_t new_id() {
  static std::atomic<std::size_t> next{0};
  return next++;
}

/// An action by its whole name.
template <FixedString Name, RunPart In>
struct Plain {
  static constexpr RunPart part = In;
  static std::string name() { return std::string(Name.view()); }
};

/// "[Strategy]SingleDevice.backward".
FULGURITE_COLD std::string name_of(std::string_view role, std::string_view type, std::string_view what) {
  std::string all = "[";
  (all += role) += ']';
  (all += type) += '.';
  return all += what;
}

/// One of a participant. Two objects of one type are one.
template <FixedString Role, class T, FixedString What, RunPart In>
struct Of {
  static constexpr RunPart part = In;
  static std::string name() { return name_of(Role.view(), type_name<T>(), What.view()); }
};

/// The same of a hook, or another function of the library's tables, by its row.
template <FixedString Role, class T, class Hook, RunPart In = RunPart::hooks>
struct HookOf {
  static constexpr RunPart part = In;
  static std::string name() { return name_of(Role.view(), type_name<T>(), Hook::name()); }
};

/// The one action of such a type. Without `Counts` the time is added to it, and it is not counted.
template <class A, bool Counts = true>
ProfiledAction const& action_of() {
  if constexpr (Counts) {
    static std::string const name = A::name();
    static ProfiledAction const action{.id = new_id(), .name = name.c_str(), .part = A::part};
    return action;
  } else {
    static ProfiledAction const action{
        .id = action_of<A>().id, .name = action_of<A>().name, .part = A::part, .counts = false};
    return action;
  }
}

}  // namespace action
}  // namespace fulgurite
