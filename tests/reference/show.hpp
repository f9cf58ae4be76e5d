#pragma once
// A plan as text that can be pasted into a test, smaller plans, and where two traces part.

#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plan.hpp"

namespace reference {

namespace show {

inline std::string value(bool on) { return on ? "true" : "false"; }
inline std::string value(int n) { return std::to_string(n); }
inline std::string value(long n) { return std::to_string(n); }
inline std::string value(double x) { return text(x); }
inline std::string value(Place const& at) { return "{" + value(at.epoch) + ", " + value(at.batch) + "}"; }
inline std::string value(Schedule schedule) {
  constexpr char const* names[] = {"none", "step", "epoch", "plateau_step", "plateau_epoch"};
  return std::string("reference::Schedule::") + names[static_cast<int>(schedule)];
}
inline std::string value(StopRequest const& stop) {
  constexpr char const* names[] = {"fit_start", "train_batch_end", "validation_end", "train_epoch_end"};
  return std::string("{reference::Where::") + names[static_cast<int>(stop.where)] + ", " + value(stop.epoch) + ", " +
         value(stop.batch) + "}";
}
inline std::string value(Mode mode) {
  constexpr char const* names[] = {"automatic", "manual", "slices"};
  return std::string("reference::Mode::") + names[static_cast<int>(mode)];
}
template <class T>
std::string value(std::optional<T> const& some);
inline std::string value(Average const& one) {
  return "reference::Average{" + value(one.every_n_steps) + ", " + value(one.from_step) + ", " + value(one.from_epoch) +
         "}";
}
inline std::string value(Several const& one) {
  return "reference::Several{" + value(one.n) + ", " + value(one.validation) + ", " + value(one.workers) + "}";
}
template <class T>
std::string value(std::optional<T> const& some) {
  return some ? value(*some) : "std::nullopt";
}
inline std::string value(std::pair<int const, int> const& one) {
  return "{" + value(one.first) + ", " + value(one.second) + "}";
}
template <class All>
  requires requires(All all) { all.begin(); }
std::string value(All const& all) {
  std::string list;
  for (auto const& one : all) list += (list.empty() ? "" : ", ") + value(one);
  return "{" + list + "}";
}

}  // namespace show

/// `f("name", &Plan::name)` for each member, in the order of their declaration.
template <class F>
void each_member(F&& f) {
#define FULGURITE_MEMBER(NAME) f(#NAME, &Plan::NAME)
  FULGURITE_MEMBER(max_epochs);
  FULGURITE_MEMBER(max_steps);
  FULGURITE_MEMBER(min_epochs);
  FULGURITE_MEMBER(min_steps);
  FULGURITE_MEMBER(n);
  FULGURITE_MEMBER(sized);
  FULGURITE_MEMBER(generated);
  FULGURITE_MEMBER(none_batches);
  FULGURITE_MEMBER(limit_train_batches);
  FULGURITE_MEMBER(limit_train_fraction);
  FULGURITE_MEMBER(validation);
  FULGURITE_MEMBER(limit_val_batches);
  FULGURITE_MEMBER(limit_val_fraction);
  FULGURITE_MEMBER(val_check_batches);
  FULGURITE_MEMBER(val_check_fraction);
  FULGURITE_MEMBER(check_val_every_n_epoch);
  FULGURITE_MEMBER(num_sanity_val_steps);
  FULGURITE_MEMBER(accumulate_grad_batches);
  FULGURITE_MEMBER(schedule);
  FULGURITE_MEMBER(frequency);
  FULGURITE_MEMBER(watches_training);
  FULGURITE_MEMBER(further);
  FULGURITE_MEMBER(further_frequency);
  FULGURITE_MEMBER(stops);
  FULGURITE_MEMBER(skips);
  FULGURITE_MEMBER(none_losses);
  FULGURITE_MEMBER(log_every_n_steps);
  FULGURITE_MEMBER(clip_norm);
  FULGURITE_MEMBER(clip_value);
  FULGURITE_MEMBER(average);
  FULGURITE_MEMBER(several);
  FULGURITE_MEMBER(mode);
  FULGURITE_MEMBER(slice);
#undef FULGURITE_MEMBER
}

/// What differs from the default: `Plan{.n = 3, .stops = {...}}`.
inline std::string shown(Plan const& plan) {
  std::string all;
  Plan const plain;
  each_member([&](char const* name, auto member) {
    std::string const now = show::value(plan.*member);
    if (now != show::value(plain.*member)) all += std::string(all.empty() ? "." : ", .") + name + " = " + now;
  });
  return "Plan{" + all + "}";
}

/// Plans with less in them: one member as it is by default, one list shorter by an entry, one number smaller by 1.
inline std::vector<Plan> smaller(Plan const& plan) {
  std::vector<Plan> all;
  Plan const plain;
  each_member([&](char const*, auto member) {
    if (show::value(plan.*member) == show::value(plain.*member)) return;
    all.push_back(plan);
    all.back().*member = plain.*member;
    if constexpr (requires { (plan.*member).begin(); }) {
      for (std::size_t i = 0; i != (plan.*member).size(); ++i) {
        all.push_back(plan);
        auto& list = all.back().*member;
        list.erase(std::next(list.begin(), static_cast<std::ptrdiff_t>(i)));
      }
    }
  });
  auto less = [&](auto member) {
    if (!(plan.*member) || *(plan.*member) < 3) return;
    all.push_back(plan);
    --*(all.back().*member);
  };
  less(&Plan::max_epochs);
  less(&Plan::max_steps);
  less(&Plan::validation);
  less(&Plan::val_check_batches);
  if (plan.n > plain.n) {
    all.push_back(plan);
    --all.back().n;
  }
  return all;
}

/// The first line that differs, with five before it.
inline std::string parting(Lines const& expected, Lines const& found) {
  std::size_t at = 0;
  while (at < expected.size() && at < found.size() && expected[at] == found[at]) ++at;
  std::string all;
  for (std::size_t i = at < 5 ? 0 : at - 5; i != at; ++i) all += "    " + expected[i] + "\n";
  all += "  reference: " + (at < expected.size() ? expected[at] : "(the end)") + "\n";
  return all + "  loops:     " + (at < found.size() ? found[at] : "(the end)") + "\n";
}

}  // namespace reference
