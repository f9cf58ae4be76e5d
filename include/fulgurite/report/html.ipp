#pragma once
// The bodies of report/html.hpp.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include <fulgurite/core/error.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/report/html.hpp>
#include <fulgurite/report/plot.hpp>
#include <fulgurite/report/profile.hpp>
#include <fulgurite/report/run_folder.hpp>
#include <fulgurite/report/terminal.hpp>

namespace fulgurite::report::html_page {

// The style of a report, and the script that shows the values under the pointer. Nothing is fetched from elsewhere.

inline constexpr std::string_view style = R"(
:root{color-scheme:light dark;--ground:#fff;--text:#24292f;--faint:#57606a;--line:#d8dee4;--mark:#fff3c4;
--best:#15803d;--heat:#3b82c4}
@media (prefers-color-scheme:dark){:root{--ground:#0d1117;--text:#e6edf3;--faint:#8b949e;--line:#30363d;
--mark:#4b3b10;--best:#56d364}}
body{margin:0 auto;padding:24px;max-width:1520px;background:var(--ground);color:var(--text);
font:14px/1.5 system-ui,sans-serif}
h1{font-size:22px;margin:0 0 4px}h2{font-size:17px;margin:36px 0 10px}p{color:var(--faint);margin:4px 0}
table{border-collapse:collapse}th,td{padding:4px 14px 4px 0;border-bottom:1px solid var(--line);text-align:left;
vertical-align:top}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}tr.differs td{background:var(--mark)}
td.best{color:var(--best);font-weight:600}
th:first-child,td:first-child{padding-left:6px}
td small{display:block;color:var(--faint);font-weight:400;white-space:nowrap}
.matrix td,.matrix th{padding:4px 10px}
.wide{overflow-x:auto}.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,520px),1fr));
gap:16px}
.plot{position:relative}.plot svg{width:100%;height:auto;display:block}
.tip{position:absolute;pointer-events:none;background:var(--ground);border:1px solid var(--line);
border-radius:6px;padding:4px 8px;font-size:12px;white-space:pre;display:none}
.bar{display:flex;height:22px;border-radius:6px;overflow:hidden;margin:6px 0}.bar span{min-width:1px}
.p0{background:#c2410c}.p1{background:#a16207}.p2{background:#0b5cad}.p3{background:#3b82c4}
.p4{background:#0e7490}.p5{background:#8b2fc9}
.p6{background:#15803d}.p7{background:#db2777}.p8{background:#64748b}.p9{background:#9f1239}
.p10{background:#65a30d}.p11{background:#a8b0b8}
.key{display:inline-block;width:10px;height:10px;border-radius:3px;margin:0 5px 0 0}
.keys span.k{margin-right:16px;white-space:nowrap}
.run{display:inline-block;width:22px;border-top:3px solid;margin-right:8px;vertical-align:middle}
.dashedrun{border-top-style:dashed}
pre{overflow-x:auto;background:color-mix(in srgb,var(--text) 5%,transparent);padding:12px;border-radius:6px;
font-size:12px;line-height:1.4}
summary{cursor:pointer}
@media (max-width:640px){body{padding:16px}th,td{padding-right:10px}
td:first-child{min-width:110px;overflow-wrap:anywhere}.plot svg{overflow:visible}
.plot text{font-size:19px}.plot .title{font-size:24px}.plot .legend{font-size:16px}}
)";

/// Each plot is followed by its values as JSON: the ends of the x axis, and each curve. The position of the frame is
/// read from the SVG itself.
inline constexpr std::string_view script = R"(
for (const plot of document.querySelectorAll('.plot')) {
  const svg = plot.querySelector('svg'), tip = plot.querySelector('.tip');
  const data = JSON.parse(plot.querySelector('script').textContent);
  const frame = svg.querySelector('.frame').getAttribute('d').match(/-?[\d.]+/g).map(Number);
  const side = svg.querySelectorAll('.frame')[1].getAttribute('d').match(/-?[\d.]+/g).map(Number);
  const [left, bottom, right] = frame, top = side[1];
  const line = document.createElementNS('http://www.w3.org/2000/svg', 'path');
  line.setAttribute('class', 'frame'); line.style.display = 'none'; svg.append(line);
  const hide = () => { tip.style.display = line.style.display = 'none'; };
  plot.addEventListener('pointerleave', hide);
  plot.addEventListener('pointermove', event => {
    const box = svg.getBoundingClientRect(), scale = 720 / box.width;
    const px = (event.clientX - box.left) * scale, py = (event.clientY - box.top) * scale;
    if (px < left || px > right || py < top || py > bottom) return hide();
    const x = data.x0 + (px - left) / (right - left) * (data.x1 - data.x0);
    let at = null;
    for (const c of data.curves) for (const v of c.x) if (at === null || Math.abs(v - x) < Math.abs(at - x)) at = v;
    if (at === null) return hide();
    const rows = [];
    for (const c of data.curves) {
      let near = -1;
      for (let i = 0; i < c.x.length; ++i) if (near < 0 || Math.abs(c.x[i] - at) < Math.abs(c.x[near] - at)) near = i;
      if (near < 0) continue;
      const value = c.y[near] === null ? 'nan' : Number(c.y[near].toPrecision(6));
      rows.push(c.name + '  ' + value + (c.x[near] === at ? '' : '  at ' + c.x[near]));
    }
    tip.textContent = 'step ' + at + '\n' + rows.join('\n');
    tip.style.display = 'block';
    const cx = left + (at - data.x0) / (data.x1 - data.x0) * (right - left);
    line.setAttribute('d', 'M' + cx + ' ' + top + 'V' + bottom); line.style.display = '';
    const wide = tip.offsetWidth, over = cx / scale + 12 + wide > box.width;
    tip.style.left = (over ? cx / scale - 12 - wide : cx / scale + 12) + 'px'; tip.style.top = (py / scale + 12) + 'px';
  });
}
)";

// The settings of several runs in a table, differences first.

/// Values by name, of one run; empty if unknown.
using Values = std::vector<std::pair<std::string, std::string>>;

/// A name, its value in each run, and whether they differ: a run whose values are unknown does not count as different.
struct Compared {
  std::string name;
  std::vector<std::string> values;
  bool differs = false;
};

FULGURITE_BODY std::vector<Compared> compared(std::vector<Values> const& runs) {
  std::vector<Compared> rows;
  for (auto const& run : runs)
    for (auto const& [name, value] : run)
      if (std::ranges::find(rows, name, &Compared::name) == rows.end()) rows.push_back({.name = name, .values = {}});
  for (auto& row : rows) {
    std::string const* one = nullptr;
    for (auto const& run : runs) {
      auto const at = std::ranges::find(run, row.name, &std::pair<std::string, std::string>::first);
      row.values.push_back(at == run.end() ? "" : at->second);
    }
    for (std::size_t i = 0; i != runs.size(); ++i) {
      if (runs[i].empty()) continue;
      row.differs |= one && *one != row.values[i];
      one = &row.values[i];
    }
  }
  return rows;
}

/// A table of the differences, with `heads` for its columns; equal values follow once, collapsed. For a single run one
/// table has all values, collapsed if `folded`.
FULGURITE_BODY std::string comparison(std::string_view title, std::string const& heads, std::vector<Values> const& runs,
                                      bool folded = false) {
  auto const rows = compared(runs);
  if (rows.empty()) return {};
  std::string html = title.empty() ? "" : "<h2>" + xml_text(title) + "</h2>\n";
  auto const cell = [](std::string const& text) { return "<td>" + xml_text(text) + "</td>"; };
  std::string differing, same;
  std::size_t alike = 0;
  for (auto const& row : rows) {
    if (row.differs) {
      differing += "<tr class=\"differs\">" + cell(row.name);
      for (auto const& value : row.values) differing += cell(value);
      differing += "</tr>\n";
    } else {
      auto const any = std::ranges::find_if(row.values, [](auto const& value) { return !value.empty(); });
      same += "<tr>" + cell(row.name) + cell(any == row.values.end() ? "" : *any) + "</tr>\n";
      ++alike;
    }
  }
  std::string const table = "<div class=\"wide\"><table>", end = "</table></div>\n";
  if (!differing.empty()) html += table + "<tr><th></th>" + heads + differing + end;
  if (same.empty()) return html;
  if (runs.size() == 1 && !folded) return html + table + same + end;
  return html + "<details><summary>" + (runs.size() == 1 ? "all " : "the same in all runs: ") + std::to_string(alike) +
         "</summary>" + table + same + end + "</details>\n";
}

/// A number in JSON, which has none for infinity.
FULGURITE_BODY std::string script_number(double value) { return std::isfinite(value) ? exact_number(value) : "null"; }

/// A string in a script element: nothing in it may end the element.
FULGURITE_BODY std::string script_text(std::string_view text) {
  std::string safe;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t const bytes = utf8::length(text, at);
    safe += bytes == 0 ? "\xEF\xBF\xBD" : std::string(text.substr(at, bytes));
    at += bytes == 0 ? 1 : bytes;
  }
  std::string all;
  for (char const c : json::quoted(safe)) {
    if (c == '<') all += "\\u003c";
    else all += c;
  }
  return all;
}

/// A plot on a page: its drawing, and the values that the script shows under the pointer.
FULGURITE_BODY std::string figure(Plot const& one) {
  // For a linear axis, two positions determine both ends.
  auto const layout = plot::layout(one.x, one.y, one.curves, one.marks);
  double low = 0, high = 1;
  bool any = false;
  for (auto const& curve : one.curves)
    for (double const x : curve.x)
      if (std::isfinite(x)) {
        low = any ? std::min(low, x) : x;
        high = any ? std::max(high, x) : x;
        any = true;
      }
  if (high <= low) high = low + 1;
  double const p0 = layout.x.part(low), p1 = layout.x.part(high);
  double const unit = p1 > p0 ? (high - low) / (p1 - p0) : high - low;
  std::string json =
      "{\"x0\":" + exact_number(low - p0 * unit) + ",\"x1\":" + exact_number(low + (1 - p0) * unit) + ",\"curves\":[";
  for (auto const& curve : one.curves) {
    if (curve.x.empty()) continue;
    if (json.back() != '[') json += ',';
    json += "{\"name\":" + script_text(curve.label) + ",\"x\":[";
    for (std::size_t i = 0; i != curve.x.size(); ++i) (json += i == 0 ? "" : ",") += script_number(curve.x[i]);
    json += "],\"y\":[";
    for (std::size_t i = 0; i != curve.y.size(); ++i) (json += i == 0 ? "" : ",") += script_number(curve.y[i]);
    json += "]}";
  }
  return "<div class=\"plot\">" + one.svg(false) + "<div class=\"tip\"></div><script type=\"application/json\">" +
         json + "]}</script></div>\n";
}

/// A matrix of counts with its last values. Rows are labels, columns are predictions. The larger a cell's share of its
/// row, the darker it is.
FULGURITE_BODY std::string table_of(Matrix const& matrix) {
  double step = 0;
  auto const last = [&](std::size_t row, std::size_t column) {
    auto const& cell = matrix.cells[row * matrix.size + column];
    if (!cell.x.empty()) step = std::max(step, cell.x.back());
    return cell.y.empty() ? std::nan("") : cell.y.back();
  };
  std::string rows = "<tr><th>label</th>";
  for (std::size_t column = 0; column != matrix.size; ++column)
    rows += "<th class=\"n\">" + std::to_string(column) + "</th>";
  rows += "</tr>\n";
  for (std::size_t row = 0; row != matrix.size; ++row) {
    double whole = 0;
    for (std::size_t column = 0; column != matrix.size; ++column)
      if (double const value = last(row, column); std::isfinite(value)) whole += std::abs(value);
    rows += "<tr><th>" + std::to_string(row) + "</th>";
    for (std::size_t column = 0; column != matrix.size; ++column) {
      double const value = last(row, column);
      bool const any = std::isfinite(value);
      auto const part = any && whole > 0 ? std::lround(60 * std::abs(value) / whole) : 0;
      rows +=
          "<td class=\"n\"" +
          (part > 0 ? " style=\"background:color-mix(in srgb,var(--heat) " + std::to_string(part) + "%,transparent)\""
                    : std::string()) +
          ">" + (any ? formatted("%.6g", value) : "") + "</td>";
    }
    rows += "</tr>\n";
  }
  return "<p>" + xml_text(matrix.name) + " at step " + exact_number(step) +
         ": a row for each label, a column for what was predicted</p>\n<div class=\"wide\"><table class=\"matrix\">" +
         rows + "</table></div>\n";
}

/// From the rows that a SimpleProfiler has written.
FULGURITE_BODY Profile profile_of(std::vector<std::vector<std::string>> const& rows) {
  Profile profile;
  for (auto const& row : rows) {
    if (row.size() != 6) continue;
    auto const ns = [](std::string const& seconds) {
      return static_cast<std::int64_t>(std::llround(1e9 * run_folder::number_of(seconds).value_or(0)));
    };
    auto const part = std::ranges::find(part_names, row[0]);
    if (part == part_names.end()) profile.total = ns(row[3]);
    else
      profile.spent.push_back({.action = row[1],
                               .part = static_cast<RunPart>(part - part_names.begin()),
                               .calls = static_cast<long>(run_folder::number_of(row[2]).value_or(0)),
                               .total = ns(row[3]),
                               .own = ns(row[4]),
                               .longest = ns(row[5])});
  }
  return profile;
}

/// Where the time of a run went: a bar of shares, a sentence, and all actions in a collapsed table.
FULGURITE_BODY std::string shares(Profile const& profile) {
  auto const percent = profile.shares();
  std::string html = "<div class=\"bar\">";
  for (std::size_t k = 0; k != percent.size(); ++k)
    if (percent[k] > 0)
      html += "<span class=\"p" + std::to_string(k) + "\" style=\"width:" + formatted("%.2f", percent[k]) +
              "%\" title=\"" + formatted("%.1f", percent[k]) + " % " + xml_text(profile::words[k].later) + "\"></span>";
  html += "</div>\n<p class=\"keys\">";
  for (std::size_t k = 0; k != percent.size(); ++k)
    if (percent[k] >= 0.5)
      html += "<span class=\"k\"><span class=\"key p" + std::to_string(k) + "\"></span>" +
              formatted("%.0f", percent[k]) + " % " + xml_text(profile::words[k].later) + "</span>";
  html += "</p>\n<p>" + xml_text(profile.sentence()) + "</p>\n<details><summary>all actions</summary><pre>" +
          xml_lines(profile.table()) + "</pre></details>\n";
  return html;
}

/// The best value of a curve, its step, and the last value.
struct BestValue {
  double value = 0, last = 0;
  double step = 0;
  bool any = false;
};

/// Skips values that are NaN. `smaller`: the smallest is best.
FULGURITE_BODY BestValue best_of(Curve const* curve, bool smaller) {
  BestValue best;
  if (!curve) return best;
  for (std::size_t i = 0; i != curve->y.size(); ++i) {
    if (!std::isfinite(curve->y[i])) continue;
    best.last = curve->y[i];
    if (best.any && !(smaller ? curve->y[i] < best.value : curve->y[i] > best.value)) continue;
    best.value = curve->y[i];
    best.step = curve->x[i];
    best.any = true;
  }
  return best;
}

/// Lines of a name, spaces and a text, as in system.txt.
FULGURITE_BODY std::vector<std::pair<std::string, std::string>> two_columns(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> rows;
  while (!text.empty()) {
    auto const line = take_line(text);
    auto const gap = std::min(line.find("  "), line.size());
    rows.emplace_back(line.substr(0, gap), line.substr(std::min(line.find_first_not_of(' ', gap), line.size())));
  }
  return rows;
}

/// "precision" and "Float32", "fit: backward" and the parts that have the hook, "off: predict" and the reason; for
/// "callbacks" a list of their names. The part about options is left out: options.txt has them all.
FULGURITE_BODY std::vector<std::pair<std::string, std::string>> described_rows(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> rows;
  auto const add = [&](std::string const& name, std::string_view value) {
    auto const known = std::ranges::find(rows, name, &std::pair<std::string, std::string>::first);
    if (known == rows.end()) rows.emplace_back(name, value);
    else (known->second += ", ") += value;
  };
  constexpr std::string_view first = "Trainer of ", callbacks = "callbacks";
  constexpr std::size_t column = 34;  // column of the parts that have a hook; a long name is followed by one space
  std::string part;
  bool listed = false;
  while (!text.empty()) {
    auto const line = take_line(text);
    auto const indent = line.find_first_not_of(' ');
    if (indent == std::string_view::npos) continue;
    if (indent == 0) {
      listed = false;
      part = line.starts_with(first) ? "" : std::string(line) + ": ";
      if (part.empty()) add("model", line.substr(first.size()));
      continue;
    }
    bool const long_name = line.size() > column && line[column - 1] == ' ' && line[column] != ' ';
    auto const gap = std::min({line.find("  ", indent), line.size(), long_name ? column - 1 : line.size()});
    auto const name = line.substr(indent, gap - indent);
    auto const value = line.substr(std::min(line.find_first_not_of(' ', gap), line.size()));
    listed = part.empty() && (name.starts_with(callbacks) || (listed && indent > 2));
    if (part == "options: ") continue;
    if (listed && indent > 2) add(std::string(callbacks), value.substr(0, value.find("  ")));
    else if (listed) continue;
    else if (!value.empty()) add(part + std::string(name), value);
    else if (!part.empty()) add(part.substr(0, part.size() - 2), name);
  }
  return rows;
}

/// Writes the page once: `Page(runs).take()`.
class Page {
 public:
  FULGURITE_BODY explicit Page(std::vector<RunFolder> const& runs) : runs_(runs) {
    std::vector<std::filesystem::path> paths;
    for (auto const& run : runs) {
      paths.push_back(run.path);
      curves_.push_back(run.curves);
      matrices_.push_back(take_matrices(curves_.back()));
    }
    auto named = names_of_runs(paths);
    names_ = std::move(named.names);
    common_ = std::move(named.common);
    made_ = "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta name=\"viewport\" "
            "content=\"width=device-width,initial-scale=1\">\n<title>" +
            xml_text(names_.size() == 1 ? names_[0] : std::to_string(names_.size()) + " runs") + "</title>\n<style>" +
            std::string(style) + std::string(plot::style) + "</style></head><body>\n";
    head();
    curves();
    best();
    matrices();
    settings();
    times();
    notes();
    ((made_ += "<script>") += script) += "</script>\n</body></html>\n";
  }
  std::string take() { return std::move(made_); }

 private:
  FULGURITE_BODY std::string run_key(std::size_t run) const {
    return "<span class=\"run c" + std::to_string(run % 6) + (run / 6 % 2 == 1 ? " dashedrun" : "") + "\"></span>";
  }

  FULGURITE_BODY void cell(std::string_view text) { made_ += "<td>" + xml_text(text) + "</td>"; }

  /// The headers of a table's columns, one for each run, and the end of that row.
  FULGURITE_BODY std::string columns() const {
    std::string heads;
    for (std::size_t i = 0; i != runs_.size(); ++i)
      heads += "<th>" + (runs_.size() > 1 ? run_key(i) : std::string()) + xml_text(names_[i]) + "</th>";
    return heads + "</tr>\n";
  }

  FULGURITE_BODY void head() {
    made_ += "<h1>" + xml_text(names_.size() == 1 ? names_[0] : std::to_string(names_.size()) + " runs") + "</h1>\n";
    if (names_.size() == 1) return;
    if (!common_.empty()) made_ += "<p>in " + xml_text(common_) + "</p>\n";
    for (std::size_t i = 0; i != names_.size(); ++i) made_ += "<p>" + run_key(i) + xml_text(names_[i]) + "</p>\n";
  }

  /// All metrics, in the order in which the runs have them.
  FULGURITE_BODY std::vector<std::string> metrics() const {
    std::vector<std::string> all;
    for (auto const& curves : curves_)
      for (auto const& curve : curves)
        if (std::ranges::find(all, curve.label) == all.end()) all.push_back(curve.label);
    return all;
  }

  FULGURITE_BODY Curve const* curve_of(std::size_t run, std::string_view metric) const {
    auto const at = std::ranges::find(curves_[run], metric, &Curve::label);
    return at == curves_[run].end() ? nullptr : &*at;
  }

  /// For one run, a plot for each kind of metric. For several, a plot for each metric, in which each run keeps its
  /// colour.
  FULGURITE_BODY void curves() {
    std::vector<Plot> plots;
    if (runs_.size() == 1) {
      plots = panels(curves_[0]);
    } else {
      for (auto const& metric : metrics()) {
        plots.push_back({.title = metric, .x = {.name = "step"}});
        for (std::size_t i = 0; i != runs_.size(); ++i) {
          auto const* const curve = curve_of(i, metric);
          plots.back().curves.push_back(curve ? *curve : Curve{});
          plots.back().curves.back().label = curve ? names_[i] : "";
        }
      }
    }
    made_ += "<h2>Curves</h2>\n<div class=\"plots\">\n";
    for (auto const& one : plots) made_ += figure(one);
    made_ += "</div>\n";
  }

  /// A cell with a best value. Its step and the last value are on a line of their own, since a table of several runs
  /// has narrow columns.
  FULGURITE_BODY void value(BestValue const& one, bool wins) {
    made_ += wins ? "<td class=\"n best\">" : "<td class=\"n\">";
    if (one.any)
      made_ += formatted("%.6g", one.value) + "<small>at step " + exact_number(one.step) + ", last " +
               formatted("%.6g", one.last) + "</small>";
    made_ += "</td>";
  }

  FULGURITE_BODY void best() {
    made_ += "<h2>Best values</h2>\n<div class=\"wide\"><table><tr><th>metric</th><th></th>" + columns();
    for (auto const& metric : metrics()) {
      if (metric.starts_with("lr-") || metric == "lr") continue;  // a learning rate has no best value
      bool const smaller = smaller_is_better(metric);
      std::vector<BestValue> all;
      for (std::size_t i = 0; i != runs_.size(); ++i) all.push_back(best_of(curve_of(i, metric), smaller));
      BestValue const* winner = nullptr;
      for (auto const& one : all)
        if (one.any && (!winner || (smaller ? one.value < winner->value : one.value > winner->value))) winner = &one;
      made_ += "<tr>";
      cell(metric);
      cell(smaller ? "lowest" : "highest");
      for (auto const& one : all) value(one, winner && runs_.size() > 1 && one.any && one.value == winner->value);
      made_ += "</tr>\n";
    }
    made_ += "</table></div>\n";
  }

  /// Confusion matrices, each with its last values.
  FULGURITE_BODY void matrices() {
    if (std::ranges::all_of(matrices_, [](auto const& of_run) { return of_run.empty(); })) return;
    made_ += "<h2>Matrices</h2>\n";
    for (std::size_t i = 0; i != runs_.size(); ++i) {
      if (runs_.size() > 1 && !matrices_[i].empty()) made_ += "<p>" + run_key(i) + xml_text(names_[i]) + "</p>\n";
      for (auto const& matrix : matrices_[i]) made_ += table_of(matrix);
    }
  }

  /// Hyper-parameters, the trainer's options, the program and the machine.
  FULGURITE_BODY void settings() {
    std::vector<Values> hyperparameters, options, programs, calls, machines;
    for (auto const& run : runs_) {
      hyperparameters.push_back(run.hyperparameters);
      options.push_back(run.options);
      machines.push_back(two_columns(note_of(run, "system.txt")));
      auto rows = described_rows(note_of(run, "describe.txt"));
      // The program's parts come first, then the hooks, where the exchange of one part changes many lines.
      auto const calls_begin =
          std::ranges::find_if(rows, [](auto const& row) { return row.first.find(": ") != std::string::npos; });
      calls.emplace_back(calls_begin, rows.end());
      rows.erase(calls_begin, rows.end());
      programs.push_back(std::move(rows));
    }
    made_ += comparison("Hyper-parameters", columns(), hyperparameters);
    made_ += comparison("Options of the trainer", columns(), options, true);
    if (runs_.size() == 1) return;  // its texts are shown below unchanged
    made_ += comparison("Program", columns(), programs);
    if (auto const called = comparison("", columns(), calls); !called.empty())
      made_ += "<details><summary>who is called when</summary>" + called + "</details>\n";
    made_ += comparison("Machine", columns(), machines);
  }

  FULGURITE_BODY static std::string note_of(RunFolder const& run, std::string_view file) {
    auto const at = std::ranges::find(run.notes, file, &std::pair<std::string, std::string>::first);
    return at == run.notes.end() ? std::string() : at->second;
  }

  /// The results of a SimpleProfiler: a bar of shares, and the actions with the longest own times.
  FULGURITE_BODY void times() {
    if (std::ranges::all_of(runs_, [](auto const& run) { return run.times.empty(); })) return;
    made_ += "<h2>Where the time went</h2>\n";
    for (std::size_t i = 0; i != runs_.size(); ++i) {
      auto const profile = profile_of(runs_[i].times);
      if (profile.total <= 0) continue;
      if (runs_.size() > 1) made_ += "<p>" + run_key(i) + xml_text(names_[i]) + "</p>\n";
      made_ += shares(profile);
    }
  }

  /// Texts in the runs' folders. A text that is the same in all runs is shown once.
  FULGURITE_BODY void notes() {
    auto const shared = [&](std::pair<std::string, std::string> const& note) {
      return runs_.size() > 1 && std::ranges::all_of(runs_, [&](auto const& run) {
               return std::ranges::find(run.notes, note) != run.notes.end();
             });
    };
    auto const show = [&](std::string const& title, RunFolder const& run, bool of_all) {
      std::string texts;
      for (auto const& note : run.notes)
        if (shared(note) == of_all)
          texts += "<details" + std::string(note.first == "describe.txt" && runs_.size() == 1 ? " open" : "") +
                   "><summary>" + xml_text(note.first) + "</summary><pre>" + xml_lines(note.second) +
                   "</pre></details>\n";
      if (!texts.empty()) made_ += "<h2>" + title + "</h2>\n" + texts;
    };
    if (runs_.size() == 1) return show("Beside it", runs_[0], false);
    show("Beside all runs", runs_[0], true);
    for (std::size_t i = 0; i != runs_.size(); ++i) show(run_key(i) + xml_text(names_[i]), runs_[i], false);
  }

  std::vector<RunFolder> const& runs_;
  std::vector<std::vector<Curve>> curves_{};  ///< of each run, without the cells of matrices
  std::vector<std::vector<Matrix>> matrices_{};
  std::vector<std::string> names_{};
  std::string common_{};
  std::string made_{};
};

}  // namespace fulgurite::report::html_page

namespace fulgurite::report {

FULGURITE_BODY bool smaller_is_better(std::string_view name) {
  constexpr std::array<std::string_view, 8> mistakes{"loss", "error", "mse", "mae", "rmse", "perplexity", "nll", "wer"};
  while (!name.empty()) {
    auto const word = name.substr(0, name.find_first_of("/._-"));
    if (std::ranges::find(mistakes, word) != mistakes.end()) return true;
    name.remove_prefix(std::min(word.size() + 1, name.size()));
  }
  return false;
}

FULGURITE_BODY RunNames names_of_runs(std::vector<std::filesystem::path> const& paths) {
  using Parts = std::vector<std::string>;
  std::vector<Parts> all;
  for (auto const& path : paths) {
    all.emplace_back();
    for (auto const& part : path.lexically_normal())
      if (!part.empty()) all.back().push_back(part.string());
  }
  auto const joined = [](Parts const& parts) {
    std::filesystem::path path;
    for (auto const& part : parts) path /= part;
    return path.string();
  };
  Parts before, after;
  // One part of each path is kept.
  auto const longer = [&] { return std::ranges::all_of(all, [](Parts const& one) { return one.size() > 1; }); };
  if (all.size() > 1) {
    while (longer() && std::ranges::all_of(all, [&](Parts const& one) { return one.front() == all[0].front(); })) {
      before.push_back(all[0].front());
      for (auto& one : all) one.erase(one.begin());
    }
    while (longer() && std::ranges::all_of(all, [&](Parts const& one) { return one.back() == all[0].back(); })) {
      after.insert(after.begin(), all[0].back());
      for (auto& one : all) one.pop_back();
    }
  }
  RunNames made;
  for (auto const& one : all) made.names.push_back(joined(one));
  if (!after.empty()) {
    before.emplace_back("*");
    before.insert(before.end(), after.begin(), after.end());
  }
  made.common = joined(before);
  return made;
}

FULGURITE_BODY std::string html(std::vector<std::filesystem::path> const& folders) {
  auto const runs = read_run_folders(folders);
  return html_page::Page(runs).take();
}

}  // namespace fulgurite::report
