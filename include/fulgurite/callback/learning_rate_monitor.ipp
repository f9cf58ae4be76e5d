#pragma once
// The bodies of callback/learning_rate_monitor.hpp.

#include <algorithm>
#include <set>

#include <fulgurite/callback/learning_rate_monitor.hpp>
#include <fulgurite/core/archive.hpp>
#include <fulgurite/report/terminal.hpp>

namespace fulgurite {

FULGURITE_BODY void GradientNorm::name_all(std::vector<std::pair<std::string, double>>& norms, double norm_type) {
  std::string type = exact_number(norm_type);  // as Python prints it: "2.0", "0.5", "inf"
  if (type.find_first_not_of("0123456789") == std::string::npos) type += ".0";
  std::string const prefix = "grad_" + type + "_norm";
  for (auto& [name, value] : norms) name = prefix + (&name == &norms.back().first ? "_total" : "/" + name);
}

FULGURITE_BODY void GradientNorm::log(std::vector<std::pair<std::string, double>> norms, std::size_t position,
                                      Context& ctx) const {
  if (norms.empty()) return;
  name_all(norms, options_.norm_type);
  if (position != 0) norms.back().first += "-" + std::to_string(position);
  std::vector<Scalar> row;
  for (auto const& [name, value] : norms) row.push_back({name, value});
  ctx.log_scalars(row);
}

FULGURITE_BODY LearningRateMonitor::LearningRateMonitor(LearningRateMonitorOptions options)
    : options_(std::move(options)) {}

FULGURITE_COPIES_BODY(LearningRateMonitor);

void LearningRateMonitor::state(auto& archive) {
  std::vector<std::string> keys;
  std::vector<std::size_t> counts;
  for (auto const& [key, values] : rates_) {
    keys.push_back(key);
    counts.push_back(earlier_[key] + values.size());
  }
  archive("last_step", last_step_)("keys", keys)("counts", counts);
  if (!lacks(archive, "last_batch")) archive("last_batch", last_batch_);
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

FULGURITE_BODY void LearningRateMonitor::Schedules::add(std::string_view called, Interval interval) {
  any = true;
  move_now = move_now || interval == now;
  if (named || called.empty()) return;
  name = called;
  named = true;
}

/// Names and values, how many optimizers had each name so far, and the names of all groups.
struct LearningRateMonitor::Row {
  std::vector<std::pair<std::string, double>> values;
  std::map<std::string, int> seen;
  std::set<std::string> names;
};

FULGURITE_BODY void LearningRateMonitor::log_row(FunctionRef<void(Row&)> read,
                                                 FunctionRef<void(std::span<Scalar const>)> log) {
  Row read_row;
  read(read_row);
  std::vector<Scalar> row;
  for (auto const& [key, value] : read_row.values) row.push_back({key, value});
  if (!row.empty()) log(row);
}

FULGURITE_BODY void LearningRateMonitor::add(Row& row, Schedules& schedules, std::size_t groups,
                                             FunctionRef<Group(std::size_t)> read) {
  auto& name = schedules.name;
  if (int const earlier = schedules.named ? 0 : row.seen[name]++; earlier != 0) name += "-" + std::to_string(earlier);
  if (!options_.logging_interval && schedules.any && !schedules.move_now) return;
  for (std::size_t g = 0; g != groups; ++g) {
    auto group = read(g);
    if (group.name.empty() && groups > 1) group.name = "pg" + std::to_string(g + 1);
    auto const key = options_.key_prefix + name + (group.name.empty() ? "" : "/" + group.name);
    if (!row.names.insert(key).second)
      throw Error("fulgurite.callback.group_names", "LearningRateMonitor: two parameter groups of " + name +
                                                        " are called alike, " + key +
                                                        ": rename one, or the schedule of one");
    row.values.emplace_back(key, group.rate);
    rates_[key].push_back(group.rate);
    if (options_.log_momentum)
      row.values.emplace_back(key + "-momentum", last_momentum_[key + "-momentum"] = group.momentum.value_or(0.0));
    if (group.weight_decay)
      row.values.emplace_back(key + "-weight_decay", last_weight_decay_[key + "-weight_decay"] = *group.weight_decay);
  }
}

FULGURITE_BODY void LearningRateMonitor::begin() {
  rates_.clear();
  earlier_.clear();
  last_momentum_.clear();
  last_weight_decay_.clear();
  last_step_ = last_batch_ = -1;
}

}  // namespace fulgurite
