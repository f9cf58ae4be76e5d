#pragma once
// The callbacks of a trainer in firing order, and the fold that dispatches an event to them.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/hook/hooks.hpp>

namespace fulgurite {

/// The part of a run that an action belongs to, for the sentence that reports where the time goes.
enum class RunPart : std::uint8_t {
  data,        ///< waiting for a loader
  transfer,    ///< moving a batch to its device
  step,        ///< training_step
  backward,    ///< gradients
  update,      ///< the optimizer, clipping and clearing
  exchange,    ///< ranks wait for each other
  evaluation,  ///< validation_step, test_step, predict_step
  hooks,       ///< hooks of callbacks, model, strategy
  logging,     ///< rows for loggers
  saving,      ///< checkpoints
  own,         ///< actions that a program names itself: ctx.profile("...")
  loop         ///< actions that contain others: an epoch, a validation
};
/// The number of parts.
inline constexpr std::size_t parts_of_a_run = 12;

/// An action that takes time. A profiler identifies it by its number: the actions of a program are numbered from 0.
struct ProfiledAction {
  std::size_t id = 0;
  char const* name = "";  ///< Lightning's name if it has one: "[Callback]EarlyStopping.on_train_epoch_end"
  RunPart part = RunPart::own;
  bool counts = true;  ///< false: only adds time to an action that is counted elsewhere
};

namespace action {

std::size_t new_id();

/// An action with a fixed name.
template <FixedString Name, RunPart In>
struct Plain {
  static constexpr RunPart part = In;
  static std::string name() { return std::string(Name.view()); }
};

/// "[Strategy]SingleDevice.backward".
std::string name_of(std::string_view role, std::string_view type, std::string_view what);

/// An action of a participant. Two objects of one type share it.
template <FixedString Role, class T, FixedString What, RunPart In>
struct Of {
  static constexpr RunPart part = In;
  static std::string name() { return name_of(Role.view(), type_name<T>(), What.view()); }
};

/// The action of a hook, or of another function in the library's tables, by its row.
template <FixedString Role, class T, class Hook, RunPart In = RunPart::hooks>
struct HookOf {
  static constexpr RunPart part = In;
  static std::string name() { return name_of(Role.view(), type_name<T>(), Hook::name()); }
};

/// The only action of type `A`. Without `Counts`, time is added to the action, but it is not counted.
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

// The interface for profilers: an action lasts as long as the object that they return for it. Without a profiler it
// compiles to nothing.

/// A callback that is notified of every action, and returns an object that lives as long as the action:
///     auto profile_action(ProfiledAction const& action) { return Watched(action); }
template <class T>
concept Profiler = hook::profile_action::named<T>;

namespace hook {

/// Used if there is no profiler.
struct Unprofiled {};

/// The objects that several profilers return for one action. They are destroyed in reverse order.
template <class First, class Rest>
struct Watched {
  First first;
  Rest rest;
};

/// An action without a profiler.
struct Untimed {
  constexpr Unprofiled one() const { return {}; }
  constexpr Unprofiled more() const { return {}; }
};
/// An action that the pack's profilers measure as long as an object lives that a function here returns: `one()` counts
/// the action, `more()` only adds to its time.
template <class A, class Pack>
class Timed {
 public:
  explicit Timed(Pack& pack) : pack_(&pack) {}
  auto one() const { return pack_->template profile<A>(); }
  auto more() const { return pack_->template profile<A, false>(); }

 private:
  Pack* pack_;
};

/// The action A, for a function that does not know the pack: Untimed without a profiler.
template <class A, class Pack>
[[gnu::always_inline]] inline auto timed([[maybe_unused]] Pack& pack) {
  if constexpr (Pack::profiles) return Timed<A, Pack>(pack);
  else return Untimed{};
}

/// For this event the model is notified before the callbacks that watch and save, which must see its effects.
template <class Hook>
inline constexpr bool model_before_monitors = std::is_same_v<Hook, on_train_epoch_end>;

}  // namespace hook

/// Groups of callbacks in firing order; within a group the user's order applies. A callback chooses its group by
/// `static constexpr Order order = ...`.
enum class Order : std::uint8_t { profiler, tuner, normal, timer, progress, summary, monitor, checkpoint };

/// The group of a callback: the one it declares, or `normal`.
template <class T>
consteval Order order_of() {
  if constexpr (FULGURITE_SAYS(T, Order, order)) return T::order;
  else return Order::normal;
}

/// The state of an event's dispatch: how many participants it has reached, and the strongest Flow that they returned.
struct DispatchState {
  int participants = 0;
  Flow most_severe = Flow::proceed;
};

/// The callbacks of a trainer, in the order in which they were given.
template <class... Cs>
struct Pack {
  static constexpr std::size_t size = sizeof...(Cs);
  Slots<Cs...> slots;

  /// Positions of the callbacks, stably sorted by their order.
  static constexpr std::array<std::size_t, size> firing_order = [] {
    std::array<std::size_t, size> at{};
    std::array<Order, size + 1> of{order_of<Cs>()..., Order::normal};
    for (std::size_t i = 0; i != size; ++i) {
      std::size_t j = i;
      for (; j != 0 && of[at[j - 1]] > of[i]; --j) at[j] = at[j - 1];
      at[j] = i;
    }
    return at;
  }();

  /// True if a callback has a function of that name.
  template <class Hook>
  static constexpr bool names = (Hook::template named<Cs> || ...);

  template <std::size_t I>
  using At = typename Slots<Cs...>::template Type<I>;

  /// True if a callback is a profiler.
  static constexpr bool profiles = names<hook::profile_action>;
  /// The profilers' objects for an action, which lasts as long as these objects. Compiles to nothing without a
  /// profiler.
  template <class A, bool Counts = true>
  [[gnu::always_inline]] constexpr auto profile() {
    if constexpr (profiles) return watch(action::action_of<A, Counts>());
    else return hook::Unprofiled{};
  }
  template <std::size_t I = 0>
  auto watch([[maybe_unused]] ProfiledAction const& action) {
    if constexpr (I == size) return hook::Unprofiled{};
    else if constexpr (!Profiler<At<I>>) return watch<I + 1>(action);
    else {
      using First = decltype(slots.template get<I>().profile_action(action));
      using Rest = decltype(watch<I + 1>(action));
      return hook::Watched<First, Rest>{slots.template get<I>().profile_action(action), watch<I + 1>(action)};
    }
  }

  /// The callbacks that handle `Hook` with these arguments, in firing order.
  template <class Hook, class... Args>
  static consteval auto subscribers() {
    constexpr std::array<bool, size + 1> wanted{Listens<Hook, Cs, Args...>..., false};
    constexpr auto count = static_cast<std::size_t>(std::count(wanted.begin(), wanted.end(), true));
    std::array<std::size_t, count> list{};
    std::size_t n = 0;
    for (std::size_t i : firing_order)
      if (wanted[i]) list[n++] = i;
    return list;
  }

  /// Dispatches the event to the callbacks.
  template <class Hook, class... Args>
  [[gnu::always_inline]] constexpr void notify(DispatchState& dispatch, Args&... args) {
    constexpr auto list = subscribers<Hook, Args...>();
    [&]<std::size_t... N>(std::index_sequence<N...>) __attribute__((always_inline)) {
      (notify_watched<Hook, "Callback">(dispatch, slots.template get<list[N]>(), args...), ...);
    }(std::make_index_sequence<list.size()>{});
  }
  /// Dispatches the event to one participant as an action. Profilers do not profile themselves.
  template <class Hook, FixedString Role, class T, class... Args>
  [[gnu::always_inline]] constexpr void notify_watched(DispatchState& dispatch, T& participant, Args&... args) {
    if constexpr (profiles && !Profiler<T>) {
      [[maybe_unused]] auto const watched = profile<action::HookOf<Role, T, Hook>>();
      notify_one<Hook>(dispatch, participant, args...);
    } else {
      notify_one<Hook>(dispatch, participant, args...);
    }
  }
  template <class Hook, class T, class... Args>
  [[gnu::always_inline]] static constexpr void notify_one(DispatchState& dispatch, T& participant, Args&... args) {
    dispatch.most_severe = more_severe(dispatch.most_severe, answer_of<Hook>(participant, args...));
    ++dispatch.participants;
  }

  /// True if a participant takes the outputs of a step, so that they must be built.
  template <class Hook, class Model, class Strategy, class Outputs, class Batch, class Ctx>
  static consteval bool wants_outputs() {
    constexpr bool others =
        WantsOutputs<Hook, Model, Outputs, Batch, Ctx> || WantsOutputs<Hook, Strategy, Outputs, Batch, Ctx>;
    return (WantsOutputs<Hook, Cs, Outputs, Batch, Ctx> || ... || others);
  }

  /// Calls `f(callback)` for each callback, in firing order.
  constexpr void each(auto&& f) {
    [&]<std::size_t... N>(std::index_sequence<N...>) __attribute__((always_inline)) {
      (f(slots.template get<firing_order[N]>()), ...);
    }(std::make_index_sequence<size>{});
  }
};

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/hook/pack.ipp>
#endif
