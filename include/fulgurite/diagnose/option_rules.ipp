#pragma once
// The bodies of diagnose/option_rules.hpp.

#include <fulgurite/core/error.hpp>
#include <fulgurite/diagnose/option_rules.hpp>

namespace fulgurite::loop {

FULGURITE_BODY std::string shown(Seconds const& value) { return std::to_string(value.count()) + " s"; }

FULGURITE_BODY std::string shown(Limit const& limit) {
  return limit.kind == Limit::Kind::batches ? std::to_string(limit.batches)
                                            : "Fraction{" + std::to_string(limit.part) + "}";
}

FULGURITE_BODY std::string shown(ValidationInterval const& v) {
  return v.kind == ValidationInterval::Kind::time      ? shown(v.time)
         : v.kind == ValidationInterval::Kind::batches ? shown(v.batches)
                                                       : shown(v.part);
}

FULGURITE_BODY std::string beside(std::string_view rule, TrainerOptions const& o) {
  if (!rule.starts_with("[fulgurite.options.min_over_max]")) return "";
  return " with max_epochs = " + shown(o.max_epochs) + ", max_steps = " + shown(o.max_steps);
}

FULGURITE_BODY void refuse_option(std::string_view bracketed, std::string_view option, std::string_view value,
                                  std::string_view sentence) {
  throw Error(bracketed.substr(1, bracketed.find(']') - 1),
              std::string(option) + " = " + std::string(value) + ": " + std::string(sentence));
}

FULGURITE_INSTANTIATE(void check(TrainerOptions const&));
FULGURITE_INSTANTIATE(void check(Automatic const&));

FULGURITE_BODY void check_end(TrainerOptions const& o) {
  if (!o.max_epochs && unlimited(o.max_steps) && !o.max_time)
    throw Error("fulgurite.options.no_end",
                "nothing ends this run: set .max_epochs, .max_steps or .max_time (max_epochs = -1 asks for an "
                "endless one)");
}

}  // namespace fulgurite::loop
