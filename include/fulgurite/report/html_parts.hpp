#pragma once
// The parts of a page about runs: its style, comparisons, figures, matrices, shares of time.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/checkpoint/json.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/report/history.hpp>
#include <fulgurite/report/numbers.hpp>
#include <fulgurite/report/plot.hpp>
#include <fulgurite/report/profile.hpp>
#include <fulgurite/report/run_folder.hpp>

namespace fulgurite::report::html_page {

// How a report looks, and what shows the values under the pointer. Nothing of it is fetched from elsewhere.

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

/// Under each plot stand its values as JSON: the ends of the axis of x, and each curve. Where the frame lies is read
/// from the picture itself.
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

// What was set in several runs, side by side on a page: first what differs.

/// Values by name, of one run; empty where nothing is known of it.
using Values = std::vector<std::pair<std::string, std::string>>;

/// A name, its value in each run, and whether they differ: a run of which nothing is known does not.
struct Compared {
  std::string name;
  std::vector<std::string> values;
  bool differs = false;
};

FULGURITE_COLD std::vector<Compared> compared(std::vector<Values> const& runs) {
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

/// A table of what differs, with `heads` for its columns; what is the same stands folded up below, once. Of a single
/// run all stands in one table, folded up where `folded`.
FULGURITE_COLD std::string comparison(std::string_view title, std::string const& heads, std::vector<Values> const& runs,
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

// One plot on a page: its picture, and its numbers for the script that shows them.

/// JSON has no word for infinity.
FULGURITE_COLD std::string script_number(double value) { return std::isfinite(value) ? exact(value) : "null"; }
/// A text in a script: nothing in it may end the script.
FULGURITE_COLD std::string script_text(std::string_view text) {
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

/// The curves as they are drawn, and what a script needs to tell the values under the pointer.
FULGURITE_COLD std::string figure(Plot const& one) {
  auto svg = one.svg();
  if (auto const from = svg.find("<style>"); from != std::string::npos)  // there is one for all
    svg.erase(from, svg.find("</style>") + 8 - from);
  // Along a linear axis two places tell where it begins and ends.
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
  std::string json = "{\"x0\":" + exact(low - p0 * unit) + ",\"x1\":" + exact(low + (1 - p0) * unit) + ",\"curves\":[";
  for (auto const& curve : one.curves) {
    if (curve.x.empty()) continue;
    if (json.back() != '[') json += ',';
    json += "{\"name\":" + script_text(curve.label) + ",\"x\":[";
    for (std::size_t i = 0; i != curve.x.size(); ++i) (json += i == 0 ? "" : ",") += script_number(curve.x[i]);
    json += "],\"y\":[";
    for (std::size_t i = 0; i != curve.y.size(); ++i) (json += i == 0 ? "" : ",") += script_number(curve.y[i]);
    json += "]}";
  }
  return "<div class=\"plot\">" + svg + "<div class=\"tip\"></div><script type=\"application/json\">" + json +
         "]}</script></div>\n";
}

// A matrix of counts on a page, with its last values.

/// Rows are labels, columns what was predicted. A cell is the darker the larger its part of its row.
FULGURITE_COLD std::string table_of(Matrix const& matrix) {
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
  return "<p>" + xml_text(matrix.name) + " at step " + exact(step) +
         ": a row for each label, a column for what was predicted</p>\n<div class=\"wide\"><table class=\"matrix\">" +
         rows + "</table></div>\n";
}

// Where the time of a run went, as a page shows it.

/// From the rows that a SimpleProfiler has written.
FULGURITE_COLD Profile profile_of(std::vector<std::vector<std::string>> const& rows) {
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

/// A bar of shares, a sentence, and all actions where one asks for them.
FULGURITE_COLD std::string shares(Profile const& profile) {
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

}  // namespace fulgurite::report::html_page
