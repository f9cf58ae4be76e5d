#pragma once
// The bodies of callback/learning_rate_monitor.hpp.

#include <fulgurite/callback/learning_rate_monitor.hpp>
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

}  // namespace fulgurite
