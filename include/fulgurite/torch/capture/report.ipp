#pragma once
// The bodies of torch/capture/report.hpp.

#include <algorithm>
#include <cstdint>

#include <fulgurite/core/types.hpp>
#include <fulgurite/report/terminal.hpp>
#include <fulgurite/torch/capture/report.hpp>

namespace fulgurite::libtorch::capture {

FULGURITE_BULK_BODY Count& Count::operator=(Count const& other) {
  number_.store(other, std::memory_order_relaxed);
  return *this;
}

FULGURITE_BULK_BODY Count& Count::operator+=(long more) {
  number_.fetch_add(more, std::memory_order_relaxed);
  return *this;
}

FULGURITE_BULK_BODY void stays_as_written(CaptureReport& report, std::string const& reason) {
  std::lock_guard const lock(lists_of_reports());
  if (std::find(report.reasons.begin(), report.reasons.end(), reason) != report.reasons.end()) return;
  report.reasons.push_back(reason);
  ++report.noted;
}

FULGURITE_BULK_BODY void add_tape(CaptureReport& report, TapeFacts const& facts) {
  std::lock_guard const lock(lists_of_reports());
  report.tapes.push_back(facts);
}

FULGURITE_BODY void update_stays_apart(CaptureReport& report, std::string const& reason) {
  std::lock_guard const lock(lists_of_reports());
  report.update_apart = reason;
}

FULGURITE_BODY void steps_stay_single(CaptureReport& report, std::string const& reason) {
  if (report.single == reason) return;
  std::lock_guard const lock(lists_of_reports());
  report.single = reason;
}

/// The calls of a tape by kernel: a line for each kind that computes most, and one for all others.
FULGURITE_BODY void add_calls(std::vector<std::string>& lines, std::vector<TapeFacts::Calls> calls) {
  constexpr std::size_t most = 10;
  auto const numbers_of = [](std::int64_t flops) {
    return flops == 0 ? "" : ", " + report::formatted("%.3g", static_cast<double>(flops) / 1e9) + " GFLOP";
  };
  sort_seldom(calls,
              [](auto const& a, auto const& b) { return a.flops != b.flops ? a.flops > b.flops : a.count > b.count; });
  std::size_t more = 0;
  std::int64_t flops = 0;
  for (std::size_t i = 0; i != calls.size(); ++i) {
    if (i < most)
      lines.push_back("  " + std::to_string(calls[i].count) + " x " + calls[i].what + ": " + calls[i].kernel +
                      numbers_of(calls[i].flops));
    else more += calls[i].count, flops += calls[i].flops;
  }
  if (more != 0) lines.push_back("  " + std::to_string(more) + " other calls" + numbers_of(flops));
}

FULGURITE_BODY std::vector<std::string> account(CaptureReport const& report) {
  std::lock_guard const lock(lists_of_reports());
  auto const text = [](auto n) { return std::to_string(n); };
  std::vector<std::string> lines{"steps replayed: " + text(report.replayed) + ", recorded: " + text(report.recorded) +
                                 ", checked against a replay: " + text(report.checked) + ", run again for a check: " +
                                 text(report.confirmed) + ", as written: " + text(report.eager)};
  for (auto const& tape : report.tapes) {
    lines.push_back("tape of " + text(tape.recorded) + " operators: " + text(tape.replayed) + " replayed (" +
                    text(tape.out_forms) + " write into memory they are given, " + text(tape.products) +
                    " are products by kernels of ours, " + text(tape.small) + " functions on few numbers), dropped: " +
                    text(tape.views) + " views, " + text(tape.constants) + " constants, " + text(tape.dead) +
                    " without effect, " + text(tape.direct) + " clearings and additions of gradients, " +
                    text(tape.biases) + " additions of a bias; keeps " + text(tape.bytes) + " bytes");
    add_calls(lines, tape.calls);
  }
  if (report.updated != 0) lines.push_back("replays that updated, too: " + text(report.updated));
  if (!report.update_apart.empty()) lines.push_back("the update follows the replay: " + report.update_apart);
  if (report.joined != 0) lines.push_back("steps that ran in a graph of several: " + text(report.joined));
  if (!report.single.empty()) lines.push_back("each step is a replay of its own: " + report.single);
  for (auto const& reason : report.reasons) lines.push_back("stays as written: " + reason);
  return lines;
}

}  // namespace fulgurite::libtorch::capture
