#pragma once
// The files of a run's folder, read one by one: tables, JSON lines, event files, a mapping.

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fulgurite/checkpoint/json.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/sort_seldom.hpp>
#include <fulgurite/report/event_scalars.hpp>
#include <fulgurite/report/plot_layout.hpp>

namespace fulgurite::report {

namespace run_folder {

FULGURITE_COLD std::string text_of(std::filesystem::path const& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The rows of a table that another program may be writing: one that is cut off is left out.
FULGURITE_COLD std::vector<std::vector<std::string>> rows_of(std::string_view text) {
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> row(1);
  bool inside = false;
  for (std::size_t i = 0; i != text.size(); ++i) {
    char const c = text[i];
    if (c == '"' && inside && i + 1 != text.size() && text[i + 1] == '"') row.back() += text[i++];
    else if (c == '"') inside = !inside;
    else if (inside) row.back() += c;
    else if (c == ',') row.emplace_back();
    else if (c == '\n') {
      rows.push_back(std::exchange(row, std::vector<std::string>(1)));
    } else if (c != '\r') {
      row.back() += c;
    }
  }
  return rows;
}

FULGURITE_COLD std::optional<double> number_of(std::string_view text) {
  if (text == "nan" || text == "-nan") return std::numeric_limits<double>::quiet_NaN();
  double value = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Values by name, in the order in which names come. `step` and `epoch` are no metrics.
class Values {
 public:
  FULGURITE_COLD void add(std::string_view name, double step, double value) {
    if (name == "step" || name == "epoch") return;
    auto at = std::ranges::find(curves, name, &Curve::label);
    if (at == curves.end()) at = curves.insert(curves.end(), Curve{.label = std::string(name)});
    at->x.push_back(step);
    at->y.push_back(value);
  }
  std::vector<Curve> curves{};
};

FULGURITE_COLD std::vector<Curve> of_csv(std::string_view text) {
  auto const rows = rows_of(text);
  Values values;
  if (rows.empty()) return {};
  auto const& names = rows.front();
  auto const step = static_cast<std::size_t>(std::ranges::find(names, "step") - names.begin());
  for (std::size_t r = 1; r < rows.size(); ++r) {
    double const x = step < rows[r].size() ? number_of(rows[r][step]).value_or(static_cast<double>(r - 1))
                                           : static_cast<double>(r - 1);
    for (std::size_t i = 0; i != std::min(names.size(), rows[r].size()); ++i)
      if (auto const y = number_of(rows[r][i])) values.add(names[i], x, *y);
  }
  return std::move(values.curves);
}

/// The event files of TensorBoardLogger, or of another writer, one after the other.
FULGURITE_COLD std::vector<Curve> of_events(std::vector<std::filesystem::path> const& files) {
  Values values;
  for (auto const& file : files) {
    auto const bytes = text_of(file);
    each_event_scalar(bytes, [&](std::string_view tag, double step, double value) { values.add(tag, step, value); });
  }
  return std::move(values.curves);
}
FULGURITE_COLD bool is_event_file(std::filesystem::path const& file) {
  return file.filename().string().starts_with("events.out.tfevents.");
}
/// The files in a folder, in the order of their names; none where there is no folder.
FULGURITE_COLD std::vector<std::filesystem::path> files_in(std::filesystem::path const& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    if (std::error_code none; entry->is_regular_file(none)) files.push_back(entry->path());
  sort_seldom(files);
  return files;
}

/// The rows of JsonLinesLogger, or of MLflowLogger, which have the time as well. A line that is no object with a step
/// is left out: the last one may be half written.
FULGURITE_COLD std::vector<Curve> of_json_lines(std::string_view text, std::string const& name) {
  bool const is_journal = name.ends_with("rows.jsonl");
  Values values;
  while (!text.empty()) {
    auto const end = text.find('\n');
    if (end == std::string_view::npos) break;
    auto const line = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (!line.starts_with('{') || line.starts_with("{\"hparams\":")) continue;
    std::vector<std::pair<std::string, double>> row;
    double step = 0;
    try {
      json::Reader in(line, "fulgurite.report.no_run", name);
      in.object([&](std::string key) {
        auto const value = number_of(in.peek() == '"' ? in.string() : std::string(in.number()));
        if (key == "time" && is_journal) return;
        if (key == "step") step = value.value_or(0);
        else if (value) row.emplace_back(std::move(key), *value);
      });
    } catch (Error const&) { continue; }
    for (auto const& [metric, value] : row) values.add(metric, step, value);
  }
  return std::move(values.curves);
}

/// The mapping that our loggers write: a name and a value in each line.
FULGURITE_COLD std::vector<std::pair<std::string, std::string>> of_yaml(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> all;
  auto const plain = [](std::string_view quoted) {
    while (quoted.starts_with(' ')) quoted.remove_prefix(1);
    while (quoted.ends_with(' ') || quoted.ends_with('\r')) quoted.remove_suffix(1);
    if (!quoted.starts_with('"')) return std::string(quoted);
    try {
      return json::Reader(quoted, "fulgurite.report.no_run", "hparams.yaml").string();
    } catch (Error const&) { return std::string(quoted); }
  };
  while (!text.empty()) {
    auto const end = std::min(text.find('\n'), text.size());
    auto const line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    auto const colon = line.starts_with('"') ? line.find("\": ") : line.find(": ");
    if (colon == std::string_view::npos) continue;
    auto const name = line.substr(0, colon + line.starts_with('"'));
    all.emplace_back(plain(name), plain(line.substr(name.size() + 1)));
  }
  return all;
}

/// options.txt: `max_epochs = 10` in each line.
FULGURITE_COLD std::vector<std::pair<std::string, std::string>> of_options(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> all;
  while (!text.empty()) {
    auto const end = std::min(text.find('\n'), text.size());
    auto const line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (auto const at = line.find(" = "); at != std::string_view::npos)
      all.emplace_back(line.substr(0, at), line.substr(at + 3));
  }
  return all;
}

}  // namespace run_folder

}  // namespace fulgurite::report
