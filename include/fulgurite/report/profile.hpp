#pragma once
// Where the time of a run went: a table of its actions, and one sentence.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <fulgurite/core/action.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/sort_seldom.hpp>
#include <fulgurite/report/numbers.hpp>
#include <fulgurite/report/text_table.hpp>

namespace fulgurite::report {

/// Parts by the words of a file.
inline constexpr std::array<std::string_view, parts_of_a_run> part_names{
    "data",       "transfer", "step",    "backward", "update", "exchange",
    "evaluation", "hooks",    "logging", "saving",   "own",    "loop"};

/// What a run spent on one action, in nanoseconds.
struct Spent {
  std::string action{};
  RunPart part = RunPart::loop;
  long calls = 0;
  std::int64_t total = 0;    ///< with the actions inside of it
  std::int64_t own = 0;      ///< without them
  std::int64_t longest = 0;  ///< of one call
};

/// A length of time as a person reads it: "1.20 s", "35.1 ms", "812 us", "64 ns".
FULGURITE_COLD std::string duration_text(double nanoseconds) {
  constexpr std::array<std::pair<double, char const*>, 3> units{{{1e9, " s"}, {1e6, " ms"}, {1e3, " us"}}};
  for (auto const& [size, unit] : units)
    if (nanoseconds >= 0.9995 * size) return formatted("%.3g", nanoseconds / size) + unit;
  return formatted("%.0f", nanoseconds) + " ns";
}

namespace profile {

/// How the sentence calls a part after "... % of the time", and how it does after that.
struct Words {
  std::string_view first, later, cure;
};
inline constexpr std::array<Words, parts_of_a_run> words{{
    {"waits for data", "waiting for data",
     "Let more workers make the batches, ahead of the steps, or make a batch cheaper."},
    {"moves batches to their device", "moving batches",
     "Pinned memory, larger batches, or data that stay on the device."},
    {"is training_step", "training_step", ""},
    {"is backward", "backward", ""},
    {"is the optimizer's", "the optimizer",
     "Optimizers of fulgurite::optim update all parameters in one pass; accumulate_grad_batches makes fewer updates."},
    {"is the exchange of gradients", "the exchange of gradients",
     "Ranks wait for the slowest one: see whether all have as much to do; accumulate_grad_batches exchanges less "
     "often."},
    {"is the steps of validation, test or predict", "steps of evaluations",
     "limit_val_batches and check_val_every_n_epoch make validation rarer."},
    {"is in hooks", "hooks", "The table names the one that takes it."},
    {"writes rows of loggers", "loggers", "A larger log_every_n_steps writes fewer."},
    {"writes checkpoints", "checkpoints", "save_in_background = true writes them beside the training."},
    {"is in the program's own actions", "the program's own actions", ""},
    {"is the trainer's, or is not told apart", "everything else", ""},
}};

}  // namespace profile

/// The actions of a run, and how long all of it took.
struct Profile {
  std::vector<Spent> spent{};
  std::int64_t total = 0;

  /// What each part took by itself, in percent of the run; what no action tells of belongs to the loop.
  FULGURITE_COLD std::array<double, parts_of_a_run> shares() const {
    std::array<double, parts_of_a_run> of{};
    double rest = static_cast<double>(total);
    for (auto const& one : spent) {
      of[static_cast<std::size_t>(one.part)] += static_cast<double>(one.own);
      rest -= static_cast<double>(one.own);
    }
    of[static_cast<std::size_t>(RunPart::loop)] += std::max(0.0, rest);
    for (double& share : of) share = total > 0 ? 100 * share / static_cast<double>(total) : 0;
    return of;
  }

  /// "62 % of the time waits for data, 21 % is backward, 12 % training_step, 5 % the rest: ..." and, where the largest
  /// part is none of the model's, what to do about it.
  FULGURITE_COLD std::string sentence() const {
    auto const of = shares();
    std::array<std::size_t, parts_of_a_run> order{};
    for (std::size_t i = 0; i != order.size(); ++i) order[i] = i;
    sort_seldom(order, [&](std::size_t a, std::size_t b) { return std::tie(of[b], a) < std::tie(of[a], b); });
    auto const& first = profile::words[order[0]];
    std::string text = formatted("%.0f", of[order[0]]) + " % of the time ";
    text += first.first;
    for (std::size_t i = 1; i != order.size() && of[order[i]] >= 0.5; ++i) {
      text += ", " + formatted("%.0f", of[order[i]]) + " % ";
      text += profile::words[order[i]].later;
    }
    text += '.';
    // Where nothing trains, a validation or a test is all that was asked for.
    bool const trains = of[static_cast<std::size_t>(RunPart::step)] > 0;
    bool const cured = !first.cure.empty() && (trains || order[0] != static_cast<std::size_t>(RunPart::evaluation));
    if (cured) (text += ' ') += first.cure;
    return text;
  }

  /// The actions, those that took most first, as Lightning's SimpleProfiler shows them. Own: without the actions inside
  /// of it. `most`: so many of them, and how many are left out; `columns`: where the table would be wider, its last
  /// columns go, then names lose their beginnings, then the calls and the mean go. 0 means no limit.
  FULGURITE_COLD std::string table(std::size_t most = 0, std::size_t columns = 0) const {
    auto rows = spent;
    sort_seldom(
        rows, [](Spent const& a, Spent const& b) { return std::tie(b.total, a.action) < std::tie(a.total, b.action); });
    std::size_t const left_out = most != 0 && rows.size() > most ? rows.size() - most : 0;
    rows.resize(rows.size() - left_out);
    std::string shown = table_of(rows).text(columns);
    if (left_out != 0) shown += "and " + std::to_string(left_out) + " that took less\n";
    return shown;
  }

 private:
  FULGURITE_COLD TextTable table_of(std::vector<Spent> const& rows) const {
    TextTable made({{.title = "Action", .clip = Clip::keeps_end},
                    {.title = "Mean", .goes = 3},
                    {.title = "Calls", .goes = 2},
                    {.title = "Total"},
                    {.title = "%"},
                    {.title = "Own", .goes = 1},
                    {.title = "Longest", .goes = 1}});
    auto const text = [](std::int64_t ns) { return duration_text(static_cast<double>(ns)); };
    auto const percent = [&](std::int64_t of) {
      return total > 0 ? formatted("%.2f", 100 * static_cast<double>(of) / static_cast<double>(total)) : std::string();
    };
    made.add({"Total", "-", "1", text(total), "100"});
    for (auto const& row : rows)
      made.add({row.action,
                duration_text(static_cast<double>(row.total) / static_cast<double>(std::max(1L, row.calls))),
                std::to_string(row.calls), text(row.total), percent(row.total), text(row.own), text(row.longest)});
    return made;
  }
};

/// The same as a table for programs: part,action,calls,total_s,own_s,longest_s; the first row is the whole run.
FULGURITE_COLD std::string profile_csv(Profile const& profile) {
  auto const seconds = [](std::int64_t ns) { return exact(static_cast<double>(ns) * 1e-9); };
  std::string text = "part,action,calls,total_s,own_s,longest_s\n";
  text += "run,Total,1," + seconds(profile.total) + ",0," + seconds(profile.total) + "\n";
  for (auto const& row : profile.spent) {
    std::string name;
    for (char const c : row.action) (name += c) += c == '"' ? "\"" : "";
    text += part_names[static_cast<std::size_t>(row.part)];
    text += ",\"" + name + "\"," + std::to_string(row.calls) + "," + seconds(row.total) + "," + seconds(row.own) + "," +
            seconds(row.longest) + "\n";
  }
  return text;
}

}  // namespace fulgurite::report
