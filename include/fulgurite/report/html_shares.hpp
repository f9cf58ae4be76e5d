#pragma once
// Where the time of a run went, as a page shows it.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/report/numbers.hpp>
#include <fulgurite/report/profile.hpp>
#include <fulgurite/report/run_folder.hpp>
#include <fulgurite/report/xml_text.hpp>

namespace fulgurite::report::html_page {

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
