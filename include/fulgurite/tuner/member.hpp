#pragma once
// One member of a sweep: a model, its trainer, and what it is trained on.

#include <type_traits>
#include <utility>

#include <fulgurite/concept/data.hpp>
#include <fulgurite/loop/trainer.hpp>

namespace fulgurite::tune {

/// Batches that all members read and nobody writes: a container of them, which has to outlive the sweep. A loader has a
/// place in its data, which cannot be shared: give each member a copy of the loader, whose tensors are the same.
template <class Batches>
struct Shared {
  Batches const* batches;
};
/// What `shared` gives for a loader that cannot be shared, beside the refusal.
struct NotShared {};
/// Stored batches that all members read, and none copies: `tune::shared(batches)`. They have to outlive the sweep.
template <class Batches>
auto shared(Batches const& batches) {
  constexpr bool stored = StoredBatches<Batches const>;
  static_assert(stored, "[fulgurite.tune.shared] only a container of batches can be read by several members at once: "
                        "give each a copy of this loader, which has the data in common with it");
  if constexpr (stored) return Shared<Batches>{&batches};
  else return NotShared{};
}
/// Batches that end with the statement cannot be shared.
template <class Batches>
void shared(Batches const&&) = delete;

/// In the place of data that a member does not bring.
struct NoData {};

/// What the function returns that makes a member. The trainer has the sweep's probe among its callbacks; data are one
/// loader or data module, or one to train on and one to validate on, or none, where the model has them:
///   [&](Setting const& setting, auto probe) {
///     return tune::Member{Net(setting), make_trainer<Net>(options, SingleDevice{cpu}, NoDefaults{}, probe),
///                         data};  // copied: tensors are the same in each copy
///   }
template <class M, class T, class Train = NoData, class Val = NoData>
struct Member {
  using Model = M;
  using Trainer = T;

  M model;
  T trainer;
  Train train = {};
  Val validation = {};

  /// Trains it, as `trainer.fit(model, train, validation)`.
  void fit() {
    if constexpr (std::is_same_v<Train, NoData>) trainer.fit(model);
    else if constexpr (std::is_same_v<Val, NoData>) trainer.fit(model, seen(train));
    else trainer.fit(model, seen(train), seen(validation));
  }

 private:
  template <class D>
  static D& seen(D& data) {
    return data;
  }
  template <class Batches>
  static Batches const& seen(Shared<Batches>& data) {
    return *data.batches;
  }
};
template <class M, class T, class... Data>
Member(M, T, Data...) -> Member<M, T, Data...>;

/// Whether T is what makes a member of a sweep.
template <class T>
inline constexpr bool is_member = false;
template <class M, class T, class Train, class Val>
inline constexpr bool is_member<Member<M, T, Train, Val>> = true;
/// Whether a member has data that it may read; where it was refused them, nothing more is said.
template <class T>
inline constexpr bool has_data = false;
template <class M, class T, class Train, class Val>
inline constexpr bool has_data<Member<M, T, Train, Val>> =
    !std::is_same_v<Train, NotShared> && !std::is_same_v<Val, NotShared>;

namespace judge_member {

/// What is in a trainer's type.
template <class T>
struct Parts;
template <class M, class S, class P, class O, class... Cs>
struct Parts<fulgurite::Trainer<M, S, P, O, Cs...>> {
  using Strategy = S;
  template <class Callback>
  static constexpr bool has = (std::is_same_v<Callback, Cs> || ...);
  static constexpr bool catches_signals = (requires { Cs::catches_signals; } || ...);
  static constexpr bool draws_on_terminal = (requires { Cs::draws_on_terminal; } || ...);
  static constexpr bool records_process = (requires { Cs::records_process; } || ...);
};

/// Whether a member can be trained beside others. Each rule is one sentence.
template <class Probe, class Member>
consteval bool can_be_swept() {
  using Has = Parts<typename Member::Trainer>;
  using S = typename Has::Strategy;
  constexpr bool sees = Has::template has<Probe>;
  constexpr bool on_cpu = S::on_gpu != Known::yes && !S::is_distributed;
  constexpr bool apart = requires { typename S::Backend::Apart; };
  static_assert(sees, "[fulgurite.tune.probe] the sweep cannot see this member: put the probe, which the function that "
                      "makes it gets, among the callbacks of its trainer");
  static_assert(on_cpu,
                "[fulgurite.tune.device] members of a sweep train on the CPU, in one process: random numbers of "
                "a GPU belong to all of them");
  static_assert(apart, "[fulgurite.tune.backend] this tensor library has no random numbers for one thread alone: its "
                       "backend needs a class Apart");
  static_assert(!Has::catches_signals, "[fulgurite.tune.signals] the sweep ends its members itself after Ctrl-C: leave "
                                       "Signals out of their trainers");
  static_assert(!Has::draws_on_terminal, "[fulgurite.tune.terminal] bars of several members would overwrite one "
                                         "another: give their trainers NoDefaults{} or NoProgressBar{}, and say "
                                         ".verbose = true to the sweep");
  static_assert(!Has::records_process, "[fulgurite.tune.profiler] there is one recording of operators in a process: "
                                       "leave AdvancedProfiler out, and record a fit of one setting by itself");
  return sees && on_cpu && apart && !Has::catches_signals && !Has::draws_on_terminal && !Has::records_process &&
         has_data<Member>;
}

}  // namespace judge_member
}  // namespace fulgurite::tune
