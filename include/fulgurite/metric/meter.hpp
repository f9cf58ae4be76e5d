#pragma once
// A metric at work: a definition, and what it has seen so far. Knows no tensor library: a Store does.

#include <concepts>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/error.hpp>
#include <fulgurite/metric/metric.hpp>

namespace fulgurite::metric {

/// Options that are wrong are an Error, or where `constexpr` asks a definition's own fault(), a compile error.
template <class D>
void require_sound(D const& definition) {
  if constexpr (requires { definition.fault(); })
    if (char const* const fault = definition.fault()) {
      std::string what = std::string(name_of<D>()) + ": " + fault;
      if constexpr (requires { definition.threshold; })  // a fault begins with the option that it is of
        if (std::string_view(fault).starts_with(".threshold")) what += ", got " + std::to_string(definition.threshold);
      throw Error("fulgurite.metric.options", what);
    }
}

/// Update it with each batch, compute() at the end, reset() before the next. `Store` keeps tensors, and is made by
/// Store(definition): fulgurite::metric::Meter has that of LibTorch.
template <Definition D, class Store>
class BasicMeter {
 public:
  explicit BasicMeter(D definition = {}) : definition_((require_sound(definition), std::move(definition))) {}

  /// Adds a batch. Most metrics take (predictions, target); their definitions say which shapes. Reads nothing on the
  /// host; what cannot be known without, such as a label that is no class, is an Error of compute().
  template <class... Args>
  void update(Args const&... args) {
    Store::Scope::refuse_recording();
    if constexpr (takes<Args...>) add(tallied(args...));
    else tallied(args...);  // which says so
  }
  /// The two halves of it, for who adds later, such as a step that is recorded: what an update with these adds, ...
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
  /// ... and adding it.
  template <class Tally>
  void add(Tally const& more) {
    [[maybe_unused]] typename Store::Scope const scope{};
    store_.add(more);
    ++updates_;
  }

  /// The value of all that it was updated with since reset(); an Error if that is nothing. Reads the device once.
  auto compute() const {
    require_updates(updates_);
    return definition_.compute(std::span<double const>(store_.numbers()));
  }
  /// The same over all ranks: `compute(ctx)`, in a hook of an epoch's or a validation's end. Each rank has to ask, and
  /// gets the same. What this rank keeps stays its own.
  template <class Ranks>
  auto compute(Ranks& ranks) const {
    long updates = updates_;
    auto const numbers = store_.numbers_of_all(ranks, updates);
    require_updates(updates);
    return definition_.compute(std::span<double const>(numbers));
  }
  /// The same, nothing where no rank has seen anything.
  template <class Ranks>
  auto value(Ranks& ranks) const {
    long updates = updates_;
    auto const numbers = store_.numbers_of_all(ranks, updates);
    using Value = decltype(definition_.compute(std::span<double const>(numbers)));
    return updates == 0 ? std::optional<Value>() : definition_.compute(std::span<double const>(numbers));
  }
  /// The value of each class, of metrics that are averages over classes.
  std::vector<double> per_class() const
    requires requires(D const& d, std::span<double const> sums) { d.per_class(sums); }
  {
    require_updates(updates_);
    return definition_.per_class(store_.numbers());
  }
  /// The same over all ranks, as compute(ctx) is.
  template <class Ranks>
  std::vector<double> per_class(Ranks& ranks) const
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
  /// Adds what another one of the same options has seen: of another process, or another loader.
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
  void state(auto& archive) { archive("updates", updates_).child("kept", store_); }

  D const& definition() const { return definition_; }
  /// How often it was updated since reset().
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

/// What a metric without definition has in the place of a meter.
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

/// One for each metric of the list that has a definition; `Backend::Meter<Definition>` knows the tensors.
template <class List, class Backend>
class DeclaredMeters;

template <auto... Ms, class Backend>
class DeclaredMeters<MetricList<Ms...>, Backend> {
 public:
  static constexpr bool any = (is_counted<decltype(Ms)> || ...);
  /// Some of them have several numbers.
  static constexpr bool any_several = (counts_several<decltype(Ms)> || ...);
  /// The type of a metric, by its position.
  template <std::size_t I>
  using Declared = std::remove_const_t<std::tuple_element_t<I, std::tuple<decltype(Ms)...>>>;

  template <std::size_t I>
  auto& get() {
    return std::get<I>(meters_);
  }
  /// f(position as a constant, meter) for each.
  template <class F>
  void each([[maybe_unused]] F&& f) {
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
