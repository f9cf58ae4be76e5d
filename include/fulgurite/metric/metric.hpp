#pragma once
// A metric is a named constant of the model: a misspelt metric is an undeclared identifier, not a missing key.

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <type_traits>

#include <fulgurite/core/types.hpp>

namespace fulgurite {

/// How the values of an epoch are reduced to one. The mean is weighted by the batch size: sum(v * size) / sum(size).
enum class Reduce : std::uint8_t { mean, sum, min, max };

/// One number of those of two ranks; a NaN stays. Of a mean it is the sum, which the caller divides.
template <class Number>
constexpr Number reduced(Number so_far, Number next, Reduce how) {
  switch (how) {
  case Reduce::min: return next < so_far || next != next ? next : so_far;
  case Reduce::max: return next > so_far || next != next ? next : so_far;
  default: return so_far + next;
  }
}

/// Whether a value is reported per step or per epoch: true or false. `by_hook` means Lightning's default for the place
/// where it is logged (training steps: per step; validation, test and epoch hooks: per epoch).
struct Report {
  enum Kind : std::uint8_t { by_hook, yes, no };
  Kind kind = by_hook;
  constexpr Report(Kind which) : kind(which) {}
  /// Only a bool is accepted, since numbers and strings would convert to bool.
  template <std::same_as<bool> Bool>
  constexpr Report(Bool on) : kind(on ? yes : no) {}
  constexpr operator Kind() const { return kind; }
};

/// Reads a metric's most recent value instead of its mean over the epoch: `EarlyStopping{Net::loss.last()}`.
template <class M>
struct Last {
  using metric = M;
  static constexpr std::string_view name() { return M::name(); }
};

/// Reads a metric's value of one evaluation loader instead of the weighted mean over all:
/// `EarlyStopping{Net::val_loss.of("clean")}`. The name is the loader's own (`named<"clean">(loader)`), or
/// "dataloader_idx_1".
template <class M>
struct OfLoader {
  using metric = M;
  std::string_view loader;
  static constexpr std::string_view name() { return M::name(); }
};

/// What a callback can watch: a metric constant, `metric.last()`, or `metric.of("loader")`. There is no other view of a
/// metric.
template <class M>
concept Watchable =
    requires {
      typename M::metric;
      { M::name() } -> std::convertible_to<std::string_view>;
    } && (std::same_as<M, typename M::metric> || std::same_as<M, Last<typename M::metric>> ||
          std::same_as<M, OfLoader<typename M::metric>>);

/// A metric that a model logs. The model declares it once, with all its options, and lists it in `using Metrics =
/// MetricList<...>`:
///   static constexpr fulgurite::Metric<"val/loss"> val_loss{.prog_bar = true};
/// `ctx.log(val_loss, loss)` logs a value; callbacks watch it as `EarlyStopping{Net::val_loss}`.
template <FixedString Name, class Of = void>
struct Metric {
  using metric = Metric;
  Reduce reduce = Reduce::mean;
  bool prog_bar = false;
  bool logger = true;
  Report on_step = Report::by_hook;
  Report on_epoch = Report::by_hook;
  /// With several processes: rows of steps have the value over all processes, which costs one more exchange for each
  /// row; false: they have rank zero's own value. Values of epochs are always those of all processes.
  bool sync_on_step = false;

  static constexpr std::string_view name() { return Name.view(); }
  /// A metric that is reported both per step and per epoch has two names, `loss_step` and `loss_epoch`; these are its
  /// two values.
  constexpr Last<Metric> step() const { return {}; }
  constexpr Metric epoch() const { return *this; }
  constexpr Last<Metric> last() const { return {}; }
  /// `loader` is a string literal, which is not copied.
  template <std::size_t N>
  constexpr OfLoader<Metric> of(char const (&loader)[N]) const {
    return {loader};
  }
};

/// A metric that is computed over a whole epoch or evaluation, such as F1, which is not the mean of the batches'
/// values:
///   static constexpr fulgurite::Metric<"val/f1", metric::F1> val_f1{.how = {.num_classes = 10}};
/// `ctx.update(val_f1, logits, labels)` counts a batch of training, a validation or a test. The metric has one value
/// for each epoch and evaluation, over all ranks; callbacks watch it like any other. Programs on LibTorch must include
/// torch/metric/meter.hpp for it.
template <FixedString Name, class Of>
  requires(!std::is_void_v<Of>)
struct Metric<Name, Of> {
  using metric = Metric;
  using Definition = Of;
  Of how = {};
  bool prog_bar = false;
  bool logger = true;
  static constexpr Reduce reduce = Reduce::mean;
  static constexpr Report on_step = Report::no;
  static constexpr Report on_epoch = Report::yes;
  static constexpr bool sync_on_step = false;

  static constexpr std::string_view name() { return Name.view(); }
  /// `loader` is a string literal, which is not copied.
  template <std::size_t N>
  constexpr OfLoader<Metric> of(char const (&loader)[N]) const {
    return {loader};
  }
};

/// Refused at compile time: a metric's name is part of its type, not a value.
template <>
struct Metric<"", MetricNameAsValue> {
  using metric = Metric;
  static constexpr Reduce reduce = Reduce::mean;
  static constexpr bool prog_bar = false, logger = false, sync_on_step = false;
  static constexpr Report on_step = Report::no, on_epoch = Report::no;
  template <class... Args>
  constexpr Metric(Args const&...) {
    constexpr bool is_in_angle_brackets = sizeof...(Args) == 0;
    static_assert(
        is_in_angle_brackets,
        "[fulgurite.metric.name_as_value] a metric's name is part of its type: write it in angle brackets, `static "
        "constexpr Metric<\"loss\"> loss{}`, and options such as .prog_bar = true in the braces");
  }
  static constexpr std::string_view name() { return {}; }
};
template <std::convertible_to<std::string_view> Text, class... Options>
Metric(Text const&, Options const&...) -> Metric<"", MetricNameAsValue>;

/// True if a metric has a definition, for which batches are counted; otherwise its values are logged.
template <class M>
inline constexpr bool is_counted = requires { typename M::metric::Definition; };

/// A metric that a model declares, for code that does not depend on its type.
struct DeclaredMetric {
  std::string_view name;
  bool prog_bar, logger;
  Reduce reduce = Reduce::mean;
  Report on_step = Report::by_hook, on_epoch = Report::by_hook;
  bool sync_on_step = false;
  bool counted = false;  ///< true if it has a definition
  bool several = false;  ///< true if its definition computes several numbers
};

/// The metrics of a model, in the order of the log's columns.
template <auto... Ms>
struct MetricList {
  static constexpr std::size_t size = sizeof...(Ms);
  static constexpr std::array<std::string_view, size> names{Ms.name()...};
  static constexpr std::array<bool, size> by_step{(Ms.on_step == Report::yes)...};
  /// True for each metric that has a definition.
  static constexpr std::array<bool, size> counted{is_counted<decltype(Ms)>...};

  template <class M>
  static consteval std::size_t index_of() {
    std::size_t at = 0, found = size;
    ((std::is_same_v<typename M::metric, typename std::remove_const_t<decltype(Ms)>::metric> ? void(found = at)
                                                                                             : void(),
      ++at),
     ...);
    return found;
  }

  template <class M>
  static constexpr bool contains = index_of<M>() < size;

  /// Calls f(position, metric) for each metric.
  static constexpr void each(auto&& f) {
    std::size_t at = 0;
    (f(at++, Ms), ...);
  }
};

/// The metrics that a callback reads: `using Watches = MetricTypes<M>`; the trainer refuses a metric that the model
/// does not declare.
template <class... Ms>
struct MetricTypes {};

/// True if one of them is a string where a metric should be.
FULGURITE_OF_ARGUMENTS(watches_text, MetricTypes, std::is_same_v<Ts, MetricText> || ...);

/// The metrics that a model declares; a model without `Metrics` logs nothing.
template <class Model>
struct MetricsOf {
  using type = MetricList<>;
};
template <class Model>
  requires requires { typename Model::Metrics; }
struct MetricsOf<Model> {
  using type = typename Model::Metrics;
};

namespace metric {

// What a metric keeps between update() and compute(), and the requirements for a definition.

/// A fixed number of sums, `sums()`: batches and processes are added. The default of definitions without `Keeps`.
struct Sums {};
/// Every sample, as a row of `width()` numbers: for metrics that cannot be computed from sums.
struct Samples {};
/// The last `window` values.
struct Window {};

namespace keeps {
template <class D>
struct Of {
  using type = Sums;
};
template <class D>
  requires requires { typename D::Keeps; }
struct Of<D> {
  using type = typename D::Keeps;
};
}  // namespace keeps

/// What a definition keeps: Sums, Samples or Window.
template <class D>
using KeptBy = typename keeps::Of<D>::type;

/// A metric without its state: its options and its formula, independent of any tensor library, such as Accuracy,
/// MeanSquaredError and AUROC. Your own has these members, a `tally(predictions, target)` that returns what an update
/// adds, and optionally name() and fault(): docs/metrics.md shows one of ten lines.
template <class D>
concept Definition =
    std::copy_constructible<D> && requires(D const& d, std::span<double const> numbers) { d.compute(numbers); };

/// A definition whose sums are not added: `joined(a, b)` combines those of two batches, or processes, from `parts`
/// numbers of each, which may be doubles or tensors. For several outputs, the sums are all first numbers, then all
/// second ones, ...
template <class D>
concept JoinsSums = requires(std::array<double, D::parts> const& numbers) { D::joined(numbers, numbers); };

/// How the sums of two batches, or processes, are combined: added, the minimum or the maximum, or by `join`.
struct Combining {
  Reduce reduce = Reduce::sum;
  void (*join)(std::span<double> all, std::span<double const> more) = nullptr;
};
/// The Combining of a definition.
template <class D>
constexpr Combining combining_of() {
  if constexpr (JoinsSums<D>)
    return {.join = [](std::span<double> all, std::span<double const> more) {
      std::size_t const outputs = all.size() / D::parts;
      for (std::size_t i = 0; i != outputs; ++i) {
        std::array<double, D::parts> a, b;
        for (std::size_t p = 0; p != D::parts; ++p) a[p] = all[p * outputs + i], b[p] = more[p * outputs + i];
        auto const both = D::joined(a, b);
        for (std::size_t p = 0; p != D::parts; ++p) all[p * outputs + i] = both[p];
      }
    }};
  else if constexpr (requires { D::reduce; }) return {.reduce = D::reduce};
  else return {};
}
/// True if a definition wants the mean of its sums, which depends on the cut of the data into batches; refused.
template <class D>
constexpr bool takes_mean() {
  return combining_of<D>().reduce == Reduce::mean;
}
#define FULGURITE_SENTENCE_METRIC_REDUCE                                                                               \
  "[fulgurite.metric.reduce] a mean of sums depends on how the data is cut into batches: leave `reduce` out of the "   \
  "metric's definition, count the samples in a further sum, and divide in compute"

/// The value of a sum before the first update.
constexpr double neutral(Reduce how) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  return how == Reduce::min ? infinity : how == Reduce::max ? -infinity : 0;
}

/// The metric's name, for messages.
template <class D>
constexpr std::string_view name_of() {
  if constexpr (requires { D::name(); }) return D::name();
  else return "a metric";
}

/// True if a declared metric has no definition, or one whose value is a single number.
template <class M>
inline constexpr bool counts_one_number = true;
template <class M>
  requires is_counted<M>
inline constexpr bool counts_one_number<M> =
    requires(typename M::metric::Definition const& d, std::span<double const> numbers) {
      { d.compute(numbers) } -> std::convertible_to<double>;
    };
/// True if a declared metric's definition computes several numbers and names them: `each(value, f)` calls f(name,
/// number).
template <class M>
inline constexpr bool counts_several = false;
template <class M>
  requires is_counted<M>
inline constexpr bool counts_several<M> =
    !counts_one_number<M> && requires(typename M::metric::Definition const& d, std::span<double const> numbers,
                                      void (&f)(std::string_view, double)) { d.each(d.compute(numbers), f); };
/// True if a declared metric has a definition that takes_mean.
template <class M>
inline constexpr bool counts_mean = false;
template <class M>
  requires is_counted<M>
inline constexpr bool counts_mean<M> = takes_mean<typename M::metric::Definition>();
/// True if a declared metric has no definition, or one with valid options.
constexpr bool is_sound(auto const& metric) {
  if constexpr (requires { metric.how.fault(); }) return metric.how.fault() == nullptr;
  else return true;
}

}  // namespace metric

/// The metrics of a list, in its order.
template <class List>
inline constexpr std::array<DeclaredMetric, 0> declared_metrics{};
template <auto... Ms>
inline constexpr std::array<DeclaredMetric, sizeof...(Ms)> declared_metrics<MetricList<Ms...>>{
    DeclaredMetric{.name = Ms.name(),
                   .prog_bar = Ms.prog_bar,
                   .logger = Ms.logger,
                   .reduce = Ms.reduce,
                   .on_step = Ms.on_step,
                   .on_epoch = Ms.on_epoch,
                   .sync_on_step = Ms.sync_on_step,
                   .counted = is_counted<decltype(Ms)>,
                   .several = metric::counts_several<decltype(Ms)>}...};

}  // namespace fulgurite
