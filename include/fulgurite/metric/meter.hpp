#pragma once
// A metric with its state: a definition, and the counts so far. A Store keeps them in a tensor library's types.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/error.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/metric/metric.hpp>

namespace fulgurite::metric {

// Combines what a metric keeps over all ranks: through a context, `accuracy.compute(ctx)`, or through the strategy
// itself.

/// A context: it gathers each rank's numbers on all ranks.
template <class Ranks>
concept Gathers = requires(Ranks& ranks, std::span<double const> numbers) { ranks.all_gather(numbers); };
/// Such a context, or a strategy of several processes.
template <class Ranks>
concept SeveralRanks = Gathers<Ranks> || requires { requires Ranks::is_distributed; };

/// The numbers of each rank, in the order of the ranks.
template <SeveralRanks Ranks>
std::vector<std::vector<double>> of_each_rank(Ranks& ranks, std::vector<double> const& mine) {
  if constexpr (Gathers<Ranks>) {
    return ranks.all_gather(std::span<double const>(mine));
  } else {
    std::string bytes(mine.size() * sizeof(double), '\0');
    if (!mine.empty()) std::memcpy(bytes.data(), mine.data(), bytes.size());
    std::vector<std::vector<double>> all;
    for (auto const& part : ranks.gather(bytes)) {
      auto& numbers = all.emplace_back(part.size() / sizeof(double));
      if (!part.empty()) std::memcpy(numbers.data(), part.data(), part.size());
    }
    return all;
  }
}

/// Combines two numbers of a sum.
constexpr double combined(Reduce how, double a, double b) {
  if (how == Reduce::sum) return a + b;
  if (a != a || b != b) return a + b;  // NaN stays visible
  return how == Reduce::max ? std::max(a, b) : std::min(a, b);
}

/// Combines the sums, and adds the numbers of updates, over all ranks. A collective.
template <class Ranks>
void combine_over_ranks(Ranks& ranks, std::vector<double>& sums, Combining how, long& updates) {
  if constexpr (SeveralRanks<Ranks>) {
    if constexpr (!Gathers<Ranks>)
      if (!how.join) {
        std::vector<Reduce> each(sums.size(), how.reduce);
        each.push_back(Reduce::sum);
        sums.push_back(static_cast<double>(updates));
        ranks.reduce_in_place(std::span<double>(sums), std::span<Reduce const>(each));
        updates = static_cast<long>(sums.back());
        sums.pop_back();
        return;
      }
    auto mine = sums;
    mine.push_back(static_cast<double>(updates));
    updates = 0;
    for (auto& more : of_each_rank(ranks, mine)) {
      auto const more_updates = static_cast<long>(more.back());
      more.pop_back();
      if (more_updates == 0) continue;
      if (updates == 0) sums = more;
      else if (how.join) how.join(sums, more);
      else
        for (std::size_t i = 0; i != sums.size(); ++i) sums[i] = combined(how.reduce, sums[i], more[i]);
      updates += more_updates;
    }
  }
}

/// Concatenates the samples of all ranks, in the order of the ranks. A collective.
template <class Ranks>
void join_over_ranks(Ranks& ranks, std::vector<double>& samples, long& updates) {
  if constexpr (SeveralRanks<Ranks>) {
    auto const all = of_each_rank(ranks, samples);
    samples.clear();
    for (auto const& part : all) samples.insert(samples.end(), part.begin(), part.end());
  }
  if (!samples.empty()) updates = std::max(updates, 1L);
}

/// Throws [fulgurite.metric.options] for invalid options; in a `constexpr`, a definition's own fault() makes it a
/// compile error.
template <class D>
void require_sound(D const& definition) {
  if constexpr (requires { definition.fault(); })
    if (char const* const fault = definition.fault()) {
      std::string what = std::string(name_of<D>()) + ": " + fault;
      if constexpr (requires { definition.threshold; })  // a fault begins with the name of its option
        if (std::string_view(fault).starts_with(".threshold")) what += ", got " + exact_number(definition.threshold);
      throw Error("fulgurite.metric.options", what);
    }
}

/// A metric by hand: `metric::Meter f1{metric::F1{.num_classes = 10}};`. Call update(predictions, target) for each
/// batch, compute() at the end, reset() before the next pass. `Store` keeps tensors, and is constructed as
/// Store(definition): fulgurite::metric::Meter uses that of LibTorch.
template <Definition D, class Store>
class BasicMeter {
  static_assert(!takes_mean<D>(), FULGURITE_SENTENCE_METRIC_REDUCE);

 public:
  explicit BasicMeter(D definition = {}) : definition_((require_sound(definition), std::move(definition))) {}

  /// Adds a batch. Most metrics take (predictions, target); their definitions document the shapes. It reads nothing on
  /// the host; errors that need such a read, such as a label that is not a class, are thrown by compute().
  template <class... Args>
  void update(Args const&... args) {
    Store::Scope::refuse_recording();
    if constexpr (takes<Args...>) add(tallied(args...));
    else tallied(args...);  // its static_assert reports the error
  }
  /// First half of update, for callers that add later, such as a recorded step: returns what an update with these
  /// arguments adds.
  template <class... Args>
  auto tallied(Args const&... args) const {
    static_assert(takes<Args...>,
                  "[fulgurite.metric.update] this metric's update takes something else: most take (predictions, "
                  "target), both tensors, and metrics of values take (value); one of your own needs a const "
                  "tally(...) of what update is given");
    [[maybe_unused]] typename Store::Scope const scope{};
    if constexpr (tallies_itself<Args...>) return definition_.tally(args...);
    else if constexpr (takes<Args...>) return tally(definition_, args...);
  }
  /// Second half of update: adds the result of `tallied`.
  void add(auto const& more) {
    [[maybe_unused]] typename Store::Scope const scope{};
    store_.add(more);
    ++updates_;
  }

  /// The value over all updates since reset(); throws [fulgurite.metric.empty] if there were none. Reads the device
  /// once.
  auto compute() const {
    require_updates(updates_);
    return definition_.compute(std::span<double const>(store_.numbers()));
  }
  /// The value over all ranks: `compute(ctx)`, in a hook at the end of an epoch or a validation. A collective: each
  /// rank must call it, and gets the same result. This rank's own state is not changed.
  auto compute(auto& ranks) const {
    long updates = updates_;
    auto const numbers = store_.numbers_of_all(ranks, updates);
    require_updates(updates);
    return definition_.compute(std::span<double const>(numbers));
  }
  /// The value over all ranks, or nullopt if no rank was updated. A collective.
  auto value(auto& ranks) const {
    long updates = updates_;
    auto const numbers = store_.numbers_of_all(ranks, updates);
    using Value = decltype(definition_.compute(std::span<double const>(numbers)));
    return updates == 0 ? std::optional<Value>() : definition_.compute(std::span<double const>(numbers));
  }
  /// The value of each class, for metrics that are averages over classes.
  std::vector<double> per_class() const
    requires requires(D const& d, std::span<double const> sums) { d.per_class(sums); }
  {
    require_updates(updates_);
    return definition_.per_class(store_.numbers());
  }
  /// The value of each class over all ranks, as compute(ctx). A collective.
  std::vector<double> per_class(auto& ranks) const
    requires requires(D const& d, std::span<double const> sums) { d.per_class(sums); }
  {
    long updates = updates_;
    auto const numbers = store_.numbers_of_all(ranks, updates);
    require_updates(updates);
    return definition_.per_class(std::span<double const>(numbers));
  }

  void reset() {
    store_.reset();
    updates_ = 0;
  }
  /// Adds the updates of another meter with the same options: of another process, or of another loader.
  void merge(BasicMeter const& other) {
    if constexpr (std::equality_comparable<D>)
      if (!(definition_ == other.definition_))
        throw Error("fulgurite.metric.merge", std::string(name_of<D>()) +
                                                  " cannot be merged with one of other options, which counts something "
                                                  "else: make both of the same definition");
    if (other.updates_ == 0) return;
    [[maybe_unused]] typename Store::Scope const scope{};
    store_.merge(other.store_);
    updates_ += other.updates_;
  }
  void state(auto& archive) {
    archive("updates", updates_);
    // Counts of other options would be mixed with these; options that change the number of sums show by it.
    [[maybe_unused]] auto const option = [&]<class T>(char const* name, T const& value) {
      if constexpr (std::is_arithmetic_v<T>) archive.option(name, value);
    };
    if constexpr (requires { definition_.top_k; }) option("top_k", definition_.top_k);
    if constexpr (requires { definition_.threshold; }) option("threshold", definition_.threshold);
    if constexpr (requires { definition_.logits; }) option("logits", definition_.logits);
    if constexpr (requires { definition_.ignore_index; }) option("ignore_index", definition_.ignore_index);
    archive.child("kept", store_);
  }

  D const& definition() const { return definition_; }
  /// The number of updates since reset().
  long updates() const { return updates_; }

 private:
  template <class... Args>
  static constexpr bool tallies_itself = requires(D const& d, Args const&... args) { d.tally(args...); };
  template <class... Args>
  static constexpr bool takes =
      tallies_itself<Args...> || requires(D const& d, Args const&... args) { tally(d, args...); };

  static void require_updates(long updates) {
    if (updates == 0)
      throw Error("fulgurite.metric.empty",
                  std::string(name_of<D>()) + " has no value yet: call update() before compute()");
  }

  D definition_;
  Store store_{definition_};
  long updates_ = 0;
};

// The meters of a model's declared metrics, for one loader.

/// Takes the place of a meter for a metric without a definition.
struct NoMeter {};

namespace declared {
template <class M, class Backend>
struct Place {
  using type = NoMeter;
  static type made(M const&) { return {}; }
};
template <class M, class Backend>
  requires is_counted<M>
struct Place<M, Backend> {
  using type = typename Backend::template Meter<typename M::metric::Definition>;
  static type made(M const& metric) { return type(metric.how); }
};
}  // namespace declared

/// A meter for each metric of the list that has a definition; `Backend::Meter<Definition>` is its type.
template <class List, class Backend>
class DeclaredMeters;

template <auto... Ms, class Backend>
class DeclaredMeters<MetricList<Ms...>, Backend> {
 public:
  static constexpr bool any = (is_counted<decltype(Ms)> || ...);
  /// True if some of them have several numbers.
  static constexpr bool any_several = (counts_several<decltype(Ms)> || ...);
  /// The type of a metric, by its position.
  template <std::size_t I>
  using Declared = std::remove_const_t<std::tuple_element_t<I, std::tuple<decltype(Ms)...>>>;

  template <std::size_t I>
  auto& get() {
    return std::get<I>(meters_);
  }
  /// Calls f(position as a constant, meter) for each.
  void each([[maybe_unused]] auto&& f) {
    [&]<std::size_t... I>(std::index_sequence<I...>) { (at<I>(f), ...); }(std::index_sequence_for<decltype(Ms)...>());
  }
  void restart() {
    each([](auto, auto& meter) { meter.reset(); });
  }

 private:
  template <class M>
  using Place = declared::Place<std::remove_const_t<M>, Backend>;

  template <std::size_t I, class F>
  void at(F& f) {
    if constexpr (!std::is_same_v<std::tuple_element_t<I, All>, NoMeter>)
      f(std::integral_constant<std::size_t, I>(), std::get<I>(meters_));
  }

  using All = std::tuple<typename Place<decltype(Ms)>::type...>;
  All meters_{Place<decltype(Ms)>::made(Ms)...};
};

}  // namespace fulgurite::metric
