#pragma once
// What a context logs under names that no metric declares.

#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <fulgurite/core/error.hpp>
#include <fulgurite/diagnose/member_sentences.hpp>
#include <fulgurite/loop/context_values.hpp>

namespace fulgurite::loop {

/// Its rows go to the loggers alone, beside those of the metrics (context_log.hpp).
template <class R, class Phase>
class DynamicContext : public ValuesContext<R, Phase> {
  using Base = ValuesContext<R, Phase>;

 public:
  // Not inherited: the compiler would need the whole State before a model's configure_optimizers(ctx) is known.
  explicit constexpr DynamicContext(State<R>& state) : Base(state) {}

  using typename Base::Metrics;

  /// A row for the loggers under a name that is known at run time only, such as a class or a layer: `ctx.log_dynamic(
  /// "val/f1/" + label, f1)`. No callback, schedule or `ctx.value` reads it, it is not reduced over an epoch, and of
  /// several processes rank 0's counts; before its row is written the last value of a name counts. What is to be
  /// watched is declared, and logged by ctx.log. In a hook rather than in a step, since it allocates; a captured step
  /// that calls it is refused.
  template <class V>
  void log_dynamic(std::string_view name, V value) const {
    constexpr bool number = std::is_arithmetic_v<V>;
    static_assert(number, FULGURITE_SENTENCE_METRIC_DYNAMIC_VALUE);
    if constexpr (number) {
      this->asked(Base::Asks::log_dynamic);
      post_dynamic(name, static_cast<double>(value));
    }
  }
  /// The same of several, which are called NAME.0, NAME.1 and so on: `ctx.log_dynamic("val/f1", meter.per_class(ctx))`.
  void log_dynamic(std::string_view name, std::vector<double> const& values) const {
    this->asked(Base::Asks::log_dynamic);
    for (std::size_t i = 0; i != values.size(); ++i)
      post_dynamic((std::string(name) += '.') += std::to_string(i), values[i]);
  }

 protected:
  using Base::state_;

  /// Whether nothing that is logged is kept, which is said.
  [[gnu::always_inline]] bool is_lost() const {
    if (!state_->asked.options.barebones) [[likely]]
      return false;
    say_lost();
    return true;
  }

 private:
  [[gnu::noinline, gnu::cold]] void say_lost() const {
    state_->warn("fulgurite.options.barebones_log",
                 "barebones keeps no metric: what is logged is lost, and can be left out");
  }
  void post_dynamic(std::string_view name, double value) const {
    if (is_lost()) return;
    if (!state_->asked.logs)
      return state_->warn("fulgurite.metric.no_logger",
                          "ctx.log_dynamic writes to the loggers alone, and there is none: what is logged is lost; add "
                          "CSVLogger{}, or leave the call out");
    bool declared = false;
    Metrics::each([&](std::size_t, auto const& metric) { declared = declared || is_reported_as(metric.name(), name); });
    if (declared || name.empty() || name == "epoch" || name == "step")
      throw Error("fulgurite.metric.dynamic_name",
                  "ctx.log_dynamic was given the name '" + std::string(name) + "', which " +
                      (declared ? "the model declares as a metric: log that by ctx.log"
                                : "is none, or a column of every row: give the number a name of its own"));
    for (auto& [posted, last] : state_->due.posted)
      if (posted == name) return static_cast<void>(last = value);
    state_->due.posted.emplace_back(name, value);
  }
  /// A metric has rows under its name, and under this name and a word.
  static bool is_reported_as(std::string_view metric, std::string_view name) {
    if (!name.starts_with(metric)) return false;
    auto const rest = name.substr(metric.size());
    return rest.empty() || rest == "_step" || rest == "_epoch" || rest.starts_with("/dataloader_idx_");
  }
};

}  // namespace fulgurite::loop
