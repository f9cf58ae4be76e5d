#pragma once
// tune::sweep: many small models of one type, trained beside one another in one process, and the best of them.

#include <concepts>
#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>

// First, since it has sentences: compilers print every #include between a sentence and the program.
#include <fulgurite/tuner/member.hpp>

#include <fulgurite/callback/watch.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/tuner/heat.hpp>
#include <fulgurite/tuner/probe.hpp>
#include <fulgurite/tuner/space.hpp>
#include <fulgurite/tuner/sweep_options.hpp>
#include <fulgurite/tuner/sweep_results.hpp>

namespace fulgurite::tune {

namespace sweeping {

template <class Make, class Setting, class Probe>
consteval bool makes_members() {
  if constexpr (std::invocable<Make&, Setting const&, Probe>)
    return is_member<std::remove_cvref_t<std::invoke_result_t<Make&, Setting const&, Probe>>>;
  else return false;
}

template <class Make, class Setting, class Probe>
consteval bool judged() {
  constexpr bool makes = makes_members<Make, Setting, Probe>();
  static_assert(makes,
                "[fulgurite.tune.make] the function that makes a member takes (Setting const&, probe) and returns "
                "tune::Member{model, trainer, data}");
  if constexpr (!makes) return false;
  else
    return judge_member::can_be_swept<Probe, std::remove_cvref_t<std::invoke_result_t<Make&, Setting const&, Probe>>>();
}

}  // namespace sweeping

/// Trains one member for each setting of the space, several at a time, each on a thread of its own that has random
/// numbers and one core to itself: its bits are those of the same member trained alone after seeding with `.seed`.
///   auto const results = tune::sweep(
///       [&](Setting const& setting, auto probe) {
///         return tune::Member{Net(setting), make_trainer<Net>(options, SingleDevice{cpu}, Float32{}, Automatic{},
///                                                             probe), data};
///       },
///       tune::grid(tune::values<&Setting::rate>(1e-3, 1e-2), tune::values<&Setting::width>(32, 64)),
///       Net::val_accuracy, {.mode = Mode::max, .rungs = {1, 3}});
///   std::cout << results.table();
/// `make` is called in the member's thread, by one at a time. A member that throws is a row that says so. After Ctrl-C
/// (SIGINT) or SIGTERM all end after their batch, and the results are what is known; the second one ends the program.
/// With rungs each member keeps its thread while it waits. What is wrong with all members alike is an Error; so is
/// anybody's drawing from the random numbers of the process meanwhile.
template <class Make, class Setting, Watchable M>
auto sweep(Make&& make, Space<Setting> const& space, M metric, SweepOptions const& options) {
  using MakeType = std::remove_reference_t<Make>;
  constexpr bool fits = sweeping::judged<MakeType, Setting, Probe<M>>();
  if constexpr (fits) {
    tune::check(options);
    if (space.settings.empty())
      throw Error("fulgurite.tune.empty", "a space without a setting: a sweep has one member or more");
    return Heat<MakeType, Setting, M>(make, space, metric, options).run();
  }
}

}  // namespace fulgurite::tune
