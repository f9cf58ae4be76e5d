#pragma once
// The bodies of loop/checkpoint_files.hpp.

#include <algorithm>
#include <system_error>

#include <fulgurite/core/archive.hpp>
#include <fulgurite/loop/checkpoint_files.hpp>

namespace fulgurite {

FULGURITE_BULK_BODY void HeldFiles::hold(std::filesystem::path const& file, Holder holder) {
  holders_[key(file)].insert(holder);
}

FULGURITE_BULK_BODY void HeldFiles::give_up(std::filesystem::path const& file, Holder holder) {
  auto const found = holders_.find(key(file));
  if (found == holders_.end()) return;
  found->second.erase(holder);
  if (found->second.empty()) holders_.erase(found);
}

FULGURITE_BULK_BODY bool HeldFiles::by_others(std::filesystem::path const& file, Holder holder) const {
  auto const found = holders_.find(key(file));
  return found != holders_.end() && found->second.size() > found->second.count(holder);
}

FULGURITE_BULK_BODY bool HeldFiles::is_begun_with(std::filesystem::path const& file) const {
  return !named_.empty() && named_.count(key(file)) != 0;
}

FULGURITE_BULK_BODY std::filesystem::path HeldFiles::key(std::filesystem::path const& file) {
  std::error_code error;
  auto const folder = std::filesystem::absolute(file, error).parent_path();
  auto const whole = std::filesystem::weakly_canonical(folder, error);
  return (error ? folder.lexically_normal() : whole) / file.filename();
}

FULGURITE_BULK_BODY CheckpointRequest::CheckpointRequest(HeldFiles::Holder who,
                                                         std::function<void(CheckpointFiles&)> what)
    : act(std::move(what)), holder(who) {}
FULGURITE_COPIES_BODY(CheckpointRequest);

FULGURITE_BULK_BODY CheckpointFiles::CheckpointFiles(HeldFiles& held, HeldFiles::Holder holder, loop::Due const& due,
                                                     Means const& means)
    : held_(held), holder_(holder), due_(due), means_(means) {}

FULGURITE_BULK_BODY bool CheckpointFiles::of_others(std::filesystem::path const& file) const {
  return held_.by_others(file, holder_) || due_.awaits(file);
}

FULGURITE_BULK_BODY bool CheckpointFiles::taken(std::filesystem::path const& file) const {
  std::error_code ignored;
  using enum std::filesystem::file_type;
  auto const there = std::filesystem::symlink_status(file, ignored).type();
  bool const exists = there != none && there != not_found && there != unknown;
  return of_first_rank(exists) || of_others(file);
}

FULGURITE_BULK_BODY bool CheckpointFiles::of_first_rank(bool mine) const {
  return means_.of_first_rank ? means_.of_first_rank(mine) : mine;
}

FULGURITE_BULK_BODY void CheckpointFiles::write(std::filesystem::path const& file, bool weights_only) {
  if (writes() || means_.of_first_rank) means_.write(file, weights_only);
  held_.hold(file, holder_);
}

FULGURITE_BULK_BODY void CheckpointFiles::write_later(std::span<Planned const> planned, bool weights_only, Then then) {
  means_.write_later(planned, weights_only, std::move(then));
}

FULGURITE_BULK_BODY void CheckpointFiles::renamed(std::filesystem::path const& from,
                                                  std::filesystem::path const& to) const {
  if (means_.rename && from != to) means_.rename(from, to);
}

FULGURITE_BULK_BODY bool CheckpointFiles::give_up(std::filesystem::path const& file) {
  held_.give_up(file, holder_);
  std::error_code ignored;  // ignored: if the file was already removed, that is as wanted
  if (!writes() || of_others(file) || held_.is_begun_with(file)) return false;
  return means_.remove ? means_.remove(file) : std::filesystem::remove(file, ignored);
}

FULGURITE_BULK_BODY Outcome::Outcome() = default;
FULGURITE_COPIES_BODY(Outcome);

FULGURITE_BULK_BODY Outcome Outcome::with_present_files() const {
  auto all = *this;
  for (auto* const file : {&all.metrics_file, &all.best_file, &all.last_file})
    if (std::error_code none; !std::filesystem::exists(*file, none)) file->clear();
  return all;
}

void Outcome::state(auto& archive) {
  archive("best_metric", best_metric)("best_metric_name", best_metric_name)("best_value", best_value)(
      "best_epoch", best_epoch)("best_file", best_file)("last_file", last_file);
}
FULGURITE_STATE(Outcome)

}  // namespace fulgurite

namespace fulgurite::loop {

FULGURITE_BULK_BODY Notified::Notified() = default;
FULGURITE_COPIES_BODY(Notified);

FULGURITE_BULK_BODY bool Notified::contains(std::string_view name) const {
  return std::find(by.begin(), by.end(), name) != by.end();
}

FULGURITE_BULK_BODY StopRequest::StopRequest() = default;
FULGURITE_COPIES_BODY(StopRequest);

FULGURITE_BULK_BODY void StopRequest::set_monitor(MonitorStop const& request, bool wanted) {
  std::erase_if(monitors, [&](MonitorStop const& one) { return one.who == request.who; });
  if (wanted) monitors.push_back(request);
  holds = asked || !monitors.empty();
}

FULGURITE_BULK_BODY void StopRequest::withdraw(std::string const& callback) {
  std::erase_if(monitors, [&](MonitorStop const& one) {
    return one.who == callback || one.who.starts_with(callback + ": ");  // a part of it
  });
  holds = asked || !monitors.empty();
}

FULGURITE_BULK_BODY StopRequest StopRequest::lasting() const {
  StopRequest all;
  all.asked = asked && !by_time;
  if (!by_time) all.why = why;
  all.monitors = monitors;
  all.holds = all.asked || !monitors.empty();
  return all;
}

FULGURITE_BULK_BODY void Due::begin_window(long batches) {
  window = {.batches = batches, .before = rows + static_cast<long>(held_rows.size())};
}

FULGURITE_BULK_BODY long Due::rows_of_window(long batches) const {
  return window.batches == batches ? std::max(0L, rows - window.before) : 0;
}

FULGURITE_BULK_BODY bool Due::awaits(std::filesystem::path const& file) const {
  auto const named = [&](CheckpointRequest const& one) {
    return !one.path.empty() && HeldFiles::key(one.path) == HeldFiles::key(file);
  };
  auto const some = [&](auto const& all) { return std::any_of(all.begin(), all.end(), named); };
  return std::any_of(now.begin() + static_cast<std::ptrdiff_t>(done), now.end(), named) || some(requests) ||
         some(aside);
}

FULGURITE_BULK_BODY void Due::set_aside() { aside = std::exchange(requests, {}); }

FULGURITE_BULK_BODY void Due::take_back() {
  auto const after = std::exchange(requests, std::exchange(aside, {}));
  requests.insert(requests.end(), after.begin(), after.end());
}

void Notified::state(auto& archive) { archive("event", event)("by", by); }
FULGURITE_STATE(Notified)

void MonitorStop::state(auto& archive) { archive("who", who)("why", why); }
FULGURITE_STATE(MonitorStop)

}  // namespace fulgurite::loop
