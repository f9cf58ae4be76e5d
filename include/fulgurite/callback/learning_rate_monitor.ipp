#pragma once
// The bodies of callback/learning_rate_monitor.hpp.

#include <fulgurite/callback/learning_rate_monitor.hpp>
#include <fulgurite/core/archive.hpp>
#include <fulgurite/report/numbers.hpp>

namespace fulgurite {

FULGURITE_BODY void GradientNorm::name_all(std::vector<std::pair<std::string, double>>& norms, double norm_type) {
  std::string const prefix = "grad_" + type_text(norm_type) + "_norm";
  for (auto& [name, value] : norms) name = prefix + (&name == &norms.back().first ? "_total" : "/" + name);
}

FULGURITE_BODY std::string GradientNorm::type_text(double type) {
  std::string const shortest = report::exact(type);
  return shortest.find_first_not_of("0123456789") == std::string::npos ? shortest + ".0" : shortest;
}

void LearningRateMonitor::state(auto& archive) {
  std::vector<std::string> keys;
  std::vector<std::size_t> counts;
  for (auto const& [key, values] : rates_) {
    keys.push_back(key);
    counts.push_back(earlier_[key] + values.size());
  }
  archive("last_step", last_step_)("keys", keys)("counts", counts);
  auto const& every = options_.logging_interval;
  archive.option("logging_interval", std::string(!every ? "any" : *every == Interval::step ? "step" : "epoch"));
  archive.option("log_momentum", options_.log_momentum).option("log_weight_decay", options_.log_weight_decay);
  archive.option("key_prefix", options_.key_prefix);
  if constexpr (std::remove_cvref_t<decltype(archive)>::loading) {
    Series kept;
    std::map<std::string, std::size_t> earlier;
    for (std::size_t i = 0; i != std::min(keys.size(), counts.size()); ++i) {
      auto& values = kept[keys[i]] = std::move(rates_[keys[i]]);
      auto const here = counts[i] - std::min(counts[i], earlier_[keys[i]]);
      values.resize(std::min(values.size(), here));
      earlier[keys[i]] = counts[i] - values.size();
    }
    rates_ = std::move(kept);
    earlier_ = std::move(earlier);
  }
}
FULGURITE_STATE(LearningRateMonitor)

}  // namespace fulgurite
