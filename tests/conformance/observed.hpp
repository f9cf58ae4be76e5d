#pragma once
// What a case came to, written down in the form that tools/oracle.py writes for Lightning's run of the same case.

#include <concepts>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include "models.hpp"

// In a namespace, since other tests may use the same words.
namespace conformance {

using toy::Places;
using toy::Positions;

inline std::string canonical(std::string_view text) { return std::string(text); }
inline std::string canonical(bool yes) { return yes ? "true" : "false"; }
inline std::string canonical(std::integral auto number) { return std::to_string(number); }
/// Six digits: what float32 and double have in common.
inline std::string canonical(std::floating_point auto number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", static_cast<double>(number) + 0.0);
  return text;
}
template <class T>
std::string canonical(std::optional<T> const& value) {
  return value ? canonical(*value) : "none";
}
template <class A, class B>
std::string canonical(std::pair<A, B> const& pair) {
  return "(" + canonical(pair.first) + "," + canonical(pair.second) + ")";
}
/// Separated by blanks; lists inside lists in brackets; "-" where there is nothing.
template <std::ranges::range R>
  requires(!std::convertible_to<R, std::string_view>)
std::string canonical(R const& range) {
  using Item = std::ranges::range_value_t<R>;
  std::string all;
  for (auto const& item : range) {
    std::string text = canonical(static_cast<Item>(item));
    if constexpr (std::ranges::range<Item> && !std::convertible_to<Item, std::string_view>) text = "[" + text + "]";
    all += (all.empty() ? "" : " ") + text;
  }
  return all.empty() ? "-" : all;
}

/// Appends `id<TAB>label<TAB>value` to the file that FULGURITE_OBSERVATIONS names, if it names one; returns the value.
template <class T>
T observed(std::string_view id, std::string_view label, T value) {
  if (char const* file = std::getenv("FULGURITE_OBSERVATIONS"))
    std::ofstream(file, std::ios::app) << id << '\t' << label << '\t' << canonical(value) << '\n';
  return value;
}
inline std::string observed(std::string_view id, std::string_view label, char const* value) {
  return observed(id, label, std::string(value));
}

/// "error" where this is refused with an Error, "runs" where it is not; `identifier` keeps which Error.
template <class F>
std::string outcome(F&& f, std::string* identifier = nullptr, std::string* sentence = nullptr) {
  std::string const which = toy::refusal(f, sentence);
  if (identifier) *identifier = which;
  return which.empty() ? "runs" : "error";
}

/// The same batches in each of so many epochs.
inline Places each_epoch(int epochs, std::vector<long> const& batches) {
  Places all;
  for (int e = 0; e != epochs; ++e)
    for (long b : batches) all.emplace_back(e, b);
  return all;
}

using Numbers = std::vector<double>;
using Counts = std::vector<long>;
using Words = std::vector<std::string>;

}  // namespace conformance
using namespace conformance;
