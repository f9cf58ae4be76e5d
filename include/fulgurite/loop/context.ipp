#pragma once
// The bodies of loop/context.hpp.

#include <cstdio>
#include <utility>

#include <fulgurite/core/error.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/loop/context.hpp>
#include <fulgurite/loop/context_values.hpp>
#include <fulgurite/loop/shared_decisions.hpp>

namespace fulgurite {

FULGURITE_BULK_BODY bool WatchedValue::is_newer_than(long before) const {
  return value && (logged == unknown || logged != before);
}

FULGURITE_BODY std::string WatchedMetric::written() const {
  std::string text(name);
  if (as == As::last) return text + ".last()";
  if (as == As::of_loader) return text + " of loader '" + std::string(loader) + "'";
  return text;
}

FULGURITE_BODY bool Context::validating_each_epoch_end() const {
  return has_validation() && options().val_check_interval.epoch_end() && options().check_val_every_n_epoch == 1;
}

FULGURITE_BULK_BODY double Context::seconds_now() const {
  asked(Asks::seconds);
  return Seconds(options().now().time_since_epoch()).count();
}

FULGURITE_BODY void Context::print(std::string_view line) const {
  asked(Asks::warn);
  if (rank() == 0) tell(stdout, std::string(line) + "\n");
}

FULGURITE_BULK_BODY WatchedValue Context::watched_value(WatchedMetric const& metric) const {
  loop::MetricValues const values(*core_, source_);
  auto const at = values.place_of(metric.name);
  return at ? values.watched_value(metric, *at) : WatchedValue{};
}

FULGURITE_BODY std::optional<double> Context::value(std::string_view metric) const {
  loop::MetricValues const values(*core_, source_);
  auto const at = values.place_of(metric);
  return at ? values.value(WatchedMetric(metric), *at) : std::nullopt;
}

FULGURITE_BULK_BODY void Context::each_metric(FunctionRef<void(DeclaredMetric const&, std::optional<double>)> f) const {
  loop::MetricValues const values(*core_, source_);
  for (std::size_t i = 0; i != core_->program->metrics.size(); ++i)
    if (auto const& metric = core_->program->metrics[i]; !metric.several)
      f(metric, values.known(WatchedMetric(metric.name), i));
}

FULGURITE_BODY void
Context::each_loader_value(FunctionRef<void(std::string_view, std::vector<std::optional<double>> const&)> f) const {
  asked(Asks::value);
  loop::each_loader_value(*core_, f);
}

FULGURITE_BODY void Context::warn(std::string_view identifier, std::string_view sentence) const {
  require_identifier(identifier);
  core_->warn(identifier, sentence);
}

FULGURITE_BODY void Context::warn_each(std::string_view identifier, std::string_view sentence) const {
  require_identifier(identifier);
  core_->warn_each(identifier, sentence);
}

FULGURITE_BODY void Context::request_stop(std::string_view why) const {
  if (asked(Asks::request_stop), stage() != Stage::fit) return;
  note_why(why);
  wish_stop(*core_);
}

FULGURITE_BODY void Context::request_stop_for_now(std::string_view why) const {
  asked(Asks::request_stop);
  if (stage() != Stage::fit || core_->due.stop.holds || core_->due.stop.waits) return;
  note_why(why);
  wish_stop(*core_, true);
}

FULGURITE_BODY void Context::set_stop_request(std::string const& who, bool wanted, std::string const& why) const {
  if (asked(Asks::request_stop), stage() != Stage::fit) return;
  core_->due.stop.set_monitor({who, why.empty() ? who : why}, wanted);
}

FULGURITE_BODY void Context::log_scalars(std::span<Scalar const> row) const {
  asked(Asks::log_scalars);
  for (auto const& scalar : row) core_->due.posted.emplace_back(scalar.name, scalar.value);
}

FULGURITE_BODY void Context::request_checkpoint(CheckpointRequest request) const {
  if (asked(Asks::request_checkpoint), core_->facts.stage != Stage::fit)
    throw Error("fulgurite.context.outside_fit",
                "a checkpoint " + request.path.string() +
                    " was requested outside fit, where none is written: ask ctx.stage() first");
  core_->due.requests.push_back(std::move(request));
}

FULGURITE_BODY void Context::request_statistics_pass() const {
  if (asked(Asks::request_statistics_pass), stage() != Stage::fit) return;
  core_->due.statistics_pass = true;
}

FULGURITE_BODY void Context::set_log_dir(std::filesystem::path dir) const {
  if (asked(Asks::set_log_dir), core_->made.log_dir.empty()) core_->made.log_dir = std::move(dir);
}

FULGURITE_BODY void Context::note_why(std::string_view why) const {
  if (auto& noted = core_->due.stop.why; noted.empty()) noted = why;
}

FULGURITE_BODY void Context::require_identifier(std::string_view identifier) const {
  asked(Asks::warn);
  if (!loop::is_identifier(identifier))
    throw Error("fulgurite.context.warning", "'" + std::string(identifier) +
                                                 "' does not identify a warning: use words in lower case with points "
                                                 "between them, as mine.rate.high");
}

}  // namespace fulgurite
