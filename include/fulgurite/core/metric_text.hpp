#pragma once
// What stands in the place of a metric where a text or nothing was given, so that the trainer can refuse it in one
// sentence.

#include <concepts>
#include <string_view>
#include <type_traits>

namespace fulgurite {

/// `EarlyStopping{"val/loss"}` is an `EarlyStopping<MetricText>`. A class that is made of a metric gets this by a
/// deduction guide; the trainer refuses whatever lists it among its `Watches`.
struct MetricText {
  using metric = MetricText;
  template <std::convertible_to<std::string_view> Text>
  constexpr MetricText(Text const&) {}
  static constexpr std::string_view name() { return {}; }
};

/// `Metric loss{"loss"}` is a `Metric<"", MetricNameAsValue>`, by a deduction guide.
struct MetricNameAsValue {};

/// `EarlyStopping{{.patience = 5}}` is an `EarlyStopping<MetricLeftOut>`, by a deduction guide, too.
struct MetricLeftOut {
  using metric = MetricLeftOut;
  static constexpr std::string_view name() { return {}; }
};

/// Where Lightning's callbacks have an option `monitor`: naming it is refused, and so are options without names, of
/// which the first would be this one.
struct MonitorOption {
  constexpr MonitorOption() = default;
  template <class T>
  MonitorOption(T const&) {
    constexpr bool has_name = !std::is_arithmetic_v<T> && !std::is_enum_v<T>, is_option = !has_name;
    static_assert(has_name, "[fulgurite.callback.unnamed_option] options are given by their names: write "
                            "EarlyStopping{Net::val_loss, {.min_delta = 0.01, .patience = 5}}");
    static_assert(is_option, "[fulgurite.callback.monitor] the metric is no option of a callback, and no text: pass "
                             "the model's constant first, as in EarlyStopping{Net::val_loss, {.patience = 5}}");
  }
};

}  // namespace fulgurite
