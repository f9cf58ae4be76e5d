#pragma once
// One plot on a page: its picture, and its numbers for the script that shows them.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>

#include <fulgurite/checkpoint/json.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/utf8.hpp>
#include <fulgurite/report/numbers.hpp>
#include <fulgurite/report/plot.hpp>
#include <fulgurite/report/plot_layout.hpp>

namespace fulgurite::report::html_page {

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

}  // namespace fulgurite::report::html_page
