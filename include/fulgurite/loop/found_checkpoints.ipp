#pragma once
// The bodies of loop/found_checkpoints.hpp.

#include <algorithm>
#include <charconv>
#include <tuple>

#include <fulgurite/loop/found_checkpoints.hpp>

namespace fulgurite::loop {

FULGURITE_BODY std::vector<std::filesystem::path>
newest_first(std::vector<std::filesystem::path> const& files,
             FunctionRef<std::int64_t(std::filesystem::path const&)> steps_of) {
  namespace fs = std::filesystem;
  struct Found {
    fs::file_time_type written;
    fs::path file;
    std::int64_t steps = -1;
  };
  std::vector<Found> found;
  for (auto const& file : files) {
    std::error_code missing;
    auto const written = fs::last_write_time(file, missing);
    if (!missing) found.push_back({written, file});
  }
  sort_seldom(found,
              [](Found const& a, Found const& b) { return std::tie(a.written, a.file) > std::tie(b.written, b.file); });
  auto const same = [](Found const& a, Found const& b) {
    std::error_code unknown;
    return a.file == b.file || (a.written == b.written && fs::equivalent(a.file, b.file, unknown));
  };
  std::vector<fs::path> ordered;
  for (auto from = found.begin(); from != found.end();) {
    auto const to = std::find_if(from, found.end(), [&](Found const& one) { return one.written != from->written; });
    std::vector<Found> equal;
    for (; from != to; ++from)
      if (std::ranges::none_of(equal, [&](Found const& one) { return same(one, *from); })) equal.push_back(*from);
    if (equal.size() > 1)
      for (auto& one : equal) one.steps = steps_of(one.file);
    sort_seldom(equal,
                [](Found const& a, Found const& b) { return std::tie(a.steps, a.file) > std::tie(b.steps, b.file); });
    for (auto& one : equal) ordered.push_back(std::move(one.file));
  }
  return ordered;
}

FULGURITE_BODY long number_of(std::filesystem::path const& file) {
  auto const stem = file.stem().string();
  long number = -1;
  auto const* const last = stem.data() + stem.size();
  auto const* const first = stem.data() + stem.find_last_not_of("0123456789") + 1;
  return first != last && std::from_chars(first, last, number).ec == std::errc{} ? number : -1;
}

FULGURITE_BODY void highest_first(std::vector<std::filesystem::path>& files) {
  sort_seldom(files, [](auto const& a, auto const& b) {
    auto const of_a = number_of(a), of_b = number_of(b);
    return of_a != of_b ? of_a > of_b : a > b;
  });
}

FULGURITE_BULK_BODY void refuse_weights_alone(std::string const& file) {
  throw Error("fulgurite.resume.weights_only",
              file + " holds weights alone (was it saved with save_weights_only?), so no fit can go on from it: "
                     "load_weights(model, file) begins a new run with its weights");
}

FULGURITE_BULK_BODY void refuse_weights_of_others(std::string const& file) {
  throw Error("fulgurite.resume.weights_only",
              file + " holds weights and nothing of a run (what Python's programs keep beside them is not read), so no "
                     "fit can go on from it: load_weights(model, file) before fit begins a new run with its weights, "
                     "and evaluations take it as it is");
}

}  // namespace fulgurite::loop
