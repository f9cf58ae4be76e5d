#pragma once
// What stands in the place of a metric where a text or nothing was given, so that the trainer can refuse it in one
// sentence.

#include <concepts>
#include <string_view>

namespace fulgurite {

/// `EarlyStopping{"val/loss"}` is an `EarlyStopping<MetricText>`. A class that is made of a metric gets this by a
/// deduction guide; the trainer refuses whatever lists it among its `Watches`.
struct MetricText {
  using metric = MetricText;
  template <std::convertible_to<std::string_view> Text>
  constexpr MetricText(Text const&) {}
  static constexpr std::string_view name() { return {}; }
};

/// `EarlyStopping{{.patience = 5}}` is an `EarlyStopping<MetricLeftOut>`, by a deduction guide, too.
struct MetricLeftOut {
  using metric = MetricLeftOut;
  static constexpr std::string_view name() { return {}; }
};

/// Where Lightning's callbacks have an option `monitor`: naming it is refused.
struct MonitorOption {
  constexpr MonitorOption() = default;
  template <class T>
  MonitorOption(T const&) {
    constexpr bool is_option = std::same_as<T, MonitorOption>;
    static_assert(is_option, "[fulgurite.callback.monitor] the metric is no option of a callback, and no text: pass "
                             "the model's constant first, as in EarlyStopping{Net::val_loss, {.patience = 5}}");
  }
};

}  // namespace fulgurite
