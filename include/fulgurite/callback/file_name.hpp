#pragma once
// Makes names of checkpoint files from a template: "{epoch:02d}-{val/loss:.2f}" becomes "epoch=03-val/loss=0.12".

#include <charconv>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/report/numbers.hpp>

namespace fulgurite {

/// A template with fields {name} or {name:format}. The format is Python's: [0][width][.digits][d|e|f|g]. A field
/// becomes "name=value", or the value alone.
class FileName {
 public:
  /// The value of a field. Epoch and step are whole numbers, metrics are not; a metric without a value yet is the whole
  /// number 0.
  struct Value {
    double number = 0;
    bool whole = true;
  };

  FileName(std::string_view pattern, bool insert_names) : insert_names_(insert_names) {
    while (!pattern.empty()) {
      auto const open = pattern.find_first_of("{}");
      parts_.push_back({std::string(pattern.substr(0, open)), {}, {}});
      if (open == std::string_view::npos) break;
      auto const close = pattern.find_first_of("{}", open + 1);
      bool const paired = pattern[open] == '{' && close != std::string_view::npos && pattern[close] == '}';
      if (!paired) refuse("'" + std::string(pattern) + "': braces come in pairs");
      auto const field = pattern.substr(open + 1, close - open - 1);
      auto const colon = field.find(':');
      auto& part = parts_.back();
      part.name = field.substr(0, colon);
      if (part.name.empty()) refuse("a field needs a name, as in {epoch}");
      if (colon != std::string_view::npos) part.format = parsed(field.substr(colon + 1));
      pattern.remove_prefix(close + 1);
    }
  }

  /// Calls f(name) for each field.
  template <class F>
  void each_field(F&& f) const {
    for (auto const& part : parts_)
      if (!part.name.empty()) f(part.name);
  }
  /// Whether the field's format is for whole numbers. For a metric Python would refuse it when the file is due; this is
  /// asked when the run starts.
  bool wants_whole(std::string_view name) const {
    for (auto const& part : parts_)
      if (part.name == name && part.format.kind == 'd') return true;
    return false;
  }

  /// The name; value_of(name) returns the Value of a field.
  template <class F>
  std::string text(F&& value_of) const {
    std::string out;
    for (auto const& part : parts_) {
      out += part.literal;
      if (part.name.empty()) continue;
      if (insert_names_) out += part.name + "=";
      out += formatted(value_of(part.name), part.format);
    }
    return out;
  }

  /// Whether names of this template may begin with that folder, as "epoch=3-val" where it is "{epoch}-{val/loss}".
  FULGURITE_COLD bool may_lie_in(std::string_view folder) const {
    std::string all;
    for (auto const& part : parts_) {
      all += part.literal;
      if (part.name.empty()) continue;
      if (insert_names_) all += part.name + "=";
      all += any;
    }
    auto const last = all.rfind('/');
    return last != std::string::npos && matches(std::string_view(all).substr(0, last), folder);
  }

 private:
  static constexpr char any = '\0';  ///< in an outline: the value of a field, which has no '/'
  static bool matches(std::string_view outline, std::string_view text) {
    if (outline.empty()) return text.empty();
    if (outline.front() != any)
      return !text.empty() && text.front() == outline.front() && matches(outline.substr(1), text.substr(1));
    for (std::size_t taken = 0; taken <= text.size(); ++taken) {
      if (matches(outline.substr(1), text.substr(taken))) return true;
      if (taken != text.size() && text[taken] == '/') return false;
    }
    return false;
  }
  struct Format {
    bool zeros = false;
    int width = 0;
    std::optional<int> digits = std::nullopt;
    char kind = '\0';
  };
  struct Part {
    std::string literal;
    std::string name;
    Format format;
  };

  [[noreturn]] static void refuse(std::string const& why) {
    throw Error("fulgurite.callback.checkpoint_name", "a checkpoint's file name: " + why);
  }

  FULGURITE_COLD static Format parsed(std::string_view text) {
    Format format;
    auto const* at = text.data();
    auto const* const end = at + text.size();
    if (at != end && *at == '0') format.zeros = true;
    if (auto const [next, error] = std::from_chars(at, end, format.width); error == std::errc{}) at = next;
    if (at != end && *at == '.') {
      int digits = -1;
      at = std::from_chars(at + 1, end, digits).ptr;
      if (digits < 0 || digits > 40) refuse("'" + std::string(text) + "' has no number of digits, as in {x:.2f}");
      format.digits = digits;
    }
    if (at != end && std::string_view("deEfFgG").find(*at) != std::string_view::npos) format.kind = *at++;
    if (at != end || format.width < 0 || format.width > 40 || (format.kind == 'd' && format.digits))
      refuse("'" + std::string(text) + "' is not a format like 02d, .2f, .3e or g");
    return format;
  }

  FULGURITE_COLD static std::string formatted(Value value, Format const& format) {
    std::string out;
    if (value.whole && (format.kind == '\0' || format.kind == 'd') && !format.digits) {
      out = std::to_string(static_cast<long long>(value.number));
    } else if (format.kind == '\0' && !format.digits) {
      out = report::exact(value.number);
      if (out.find_first_of(".en") == std::string::npos) out += ".0";
    } else {
      std::string const how = std::string("%.*") + (format.kind == '\0' || format.kind == 'd' ? 'g' : format.kind);
      char text[400];
      out.assign(text, static_cast<std::size_t>(
                           std::snprintf(text, sizeof text, how.c_str(), format.digits.value_or(6), value.number)));
    }
    auto const width = static_cast<std::size_t>(format.width);
    if (out.size() < width)
      out.insert(format.zeros && out.front() == '-' ? 1 : 0, width - out.size(), format.zeros ? '0' : ' ');
    return out;
  }

  std::vector<Part> parts_;
  bool insert_names_;
};

}  // namespace fulgurite
