#pragma once
// The bodies of core/switches.hpp.

#include <algorithm>
#include <iterator>

#include <fulgurite/core/archive.hpp>
#include <fulgurite/core/switches.hpp>

namespace fulgurite {

void Switches::state(auto& archive) { archive("parameters", parameters)("modules", modules); }
FULGURITE_STATE(Switches)

void Switched::state(auto& archive) { archive("off", off)("on", on); }
FULGURITE_STATE(Switched)

namespace switching {

using Names = std::vector<std::string>;

FULGURITE_BODY Names without(Names const& all, Names const& others) {
  Names left;
  std::ranges::set_difference(all, others, std::back_inserter(left));
  return left;
}
FULGURITE_BODY Names with(Names const& some, Names const& others) {
  Names all;
  std::ranges::set_union(some, others, std::back_inserter(all));
  return all;
}
FULGURITE_BODY Switches without(Switches const& all, Switches const& others) {
  return {without(all.parameters, others.parameters), without(all.modules, others.modules)};
}
FULGURITE_BODY Switches with(Switches const& some, Switches const& others) {
  return {with(some.parameters, others.parameters), with(some.modules, others.modules)};
}

}  // namespace switching

FULGURITE_BODY bool Switched::nothing() const {
  return off.parameters.empty() && off.modules.empty() && on.parameters.empty() && on.modules.empty();
}

FULGURITE_BODY void SwitchHistory::program_ends(Switches const& now) {
  auto const off = switching::without(now, last_), on = switching::without(last_, now);
  for (auto* const choice : {&off_, &perhaps_off_}) *choice = switching::without(switching::with(*choice, off), on);
  last_ = now;
}

FULGURITE_BODY Switched SwitchHistory::changed(Switches const& now) const {
  return {.off = switching::without(now, off_), .on = switching::without(perhaps_off_, now)};
}

FULGURITE_BODY Switches SwitchHistory::resume(Switches const& now, Switched const& file) {
  auto const not_off = switching::without(now, perhaps_off_);
  auto const unnamed = switching::with(switching::without(now, not_off), off_);
  last_ = switching::with(switching::without(unnamed, file.on), file.off);
  off_ = switching::without(off_, file.off);
  perhaps_off_ = switching::with(perhaps_off_, file.on);
  return last_;
}

}  // namespace fulgurite
