#pragma once
// The bodies of core/switches.hpp.

#include <algorithm>
#include <iterator>

#include <fulgurite/core/archive.hpp>
#include <fulgurite/core/switches.hpp>
#include <fulgurite/core/types.hpp>

namespace fulgurite {

FULGURITE_BULK_BODY Switches::Switches() = default;
FULGURITE_COPIES_BODY(Switches);
FULGURITE_BULK_BODY Switched::Switched() = default;
FULGURITE_COPIES_BODY(Switched);
FULGURITE_BULK_BODY SwitchHistory::SwitchHistory() = default;
FULGURITE_COPIES_BODY(SwitchHistory);

void Switches::state(auto& archive) {
  archive("parameters", parameters)("modules", modules);
  for (auto* const names : {&parameters, &modules}) {  // those of a file may be in any order
    sort_seldom(*names);
    names->erase(std::unique(names->begin(), names->end()), names->end());
  }
}
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
  Switches left;
  left.parameters = without(all.parameters, others.parameters);
  left.modules = without(all.modules, others.modules);
  return left;
}
FULGURITE_BODY Switches with(Switches const& some, Switches const& others) {
  Switches all;
  all.parameters = with(some.parameters, others.parameters);
  all.modules = with(some.modules, others.modules);
  return all;
}

}  // namespace switching

FULGURITE_BODY bool Switched::nothing() const {
  return off.parameters.empty() && off.modules.empty() && on.parameters.empty() && on.modules.empty();
}

FULGURITE_BODY void SwitchHistory::program_ends(Switches const& now) {
  auto const off = switching::without(now, last_), on = switching::without(last_, now);
  choice_ = switching::without(switching::with(choice_, off), on);
  last_ = now;
}

FULGURITE_BODY Switched SwitchHistory::changed(Switches const& now) const {
  Switched since;
  since.off = switching::without(now, choice_);
  since.on = switching::without(choice_, now);
  return since;
}

FULGURITE_BODY Switches SwitchHistory::resumed(Switched const& file) const {
  return switching::with(switching::without(choice_, file.on), file.off);
}

FULGURITE_BODY void SwitchHistory::choose_as(Switched const& file) {
  choice_ = switching::with(switching::without(choice_, file.off), file.on);
}

}  // namespace fulgurite
