#pragma once
// Small tools for types, packs and tuples, and the types of options and of hooks' results.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <new>
#include <optional>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/body.hpp>

// Constants by which a class describes itself: `static constexpr TYPE NAME = ...`.

// True if class C has NAME as a constant of TYPE, or as a text. A data member of such a name means something else; it
// is checked first, since g++ 12 otherwise reports an error for the check of its value. These are macros, since a name
// cannot be passed on.
#define FULGURITE_SAYS(C, TYPE, NAME)                                                                                  \
  requires {                                                                                                           \
    requires !std::is_member_pointer_v<decltype(&C::NAME)>;                                                            \
    typename std::integral_constant<TYPE, C::NAME>;                                                                    \
  }
#define FULGURITE_SAYS_TEXT(C, NAME)                                                                                   \
  requires {                                                                                                           \
    requires !std::is_member_pointer_v<decltype(&C::NAME)>;                                                            \
    typename std::bool_constant<std::string_view(C::NAME).empty()>;                                                    \
  }

namespace fulgurite {

// Recognizes what is made from a class template.

/// True if `T` is made from the class template: `is_of<std::vector, std::vector<int>>`.
template <template <class...> class Of, class T>
inline constexpr bool is_of = false;
template <template <class...> class Of, class... Args>
inline constexpr bool is_of<Of, Of<Args...>> = true;
/// A constant that is `...` for a class template with the arguments `Ts`, and false for every other type:
/// FULGURITE_OF_ARGUMENTS(has_logger, Pack, Logger<Ts> || ...).
#define FULGURITE_OF_ARGUMENTS(NAME, TEMPLATE, ...)                                                                    \
  template <class Of>                                                                                                  \
  inline constexpr bool NAME = false;                                                                                  \
  template <class... Ts>                                                                                               \
  inline constexpr bool NAME<TEMPLATE<Ts...>> = (__VA_ARGS__)
/// True if `T` is a std::optional.
template <class T>
inline constexpr bool is_optional = is_of<std::optional, T>;

// The name of a type as the user wrote it, at compile time.

/// `type_name<Net>()` is "Net". For a template it is only the name: `type_name<EarlyStopping<...>>()` is
/// "EarlyStopping". Namespaces are dropped.
template <class T>
consteval std::string_view type_name() {
  std::string_view name = __PRETTY_FUNCTION__;
  name.remove_prefix(name.find("T = ") + 4);
  name = name.substr(0, name.find_first_of("<;]"));
  auto const last = name.rfind("::");
  return last == std::string_view::npos ? name : name.substr(last + 2);
}

// A string literal as a template argument: the name of a metric or of a loader.

/// Structural, so that `Metric<"val/loss">` is a type. It is not for sentences: clang prints its text as numbers.
template <std::size_t N>
struct FixedString {
  char text[N]{};

  consteval FixedString(char const (&literal)[N]) { std::copy_n(literal, N, text); }  // implicit: Metric<"name">
  constexpr std::string_view view() const { return {text, N - 1}; }
};

// Calls a function for each element of a tuple. std::apply generates five functions for each use, this generates one.

/// Calls f(element) for each element, in order.
template <class F, class... Ts>
constexpr void each_of(std::tuple<Ts...>& elements, F&& f) {
  [&]<std::size_t... I>(std::index_sequence<I...>)
      __attribute__((always_inline)) { (f(std::get<I>(elements)), ...); }(std::index_sequence_for<Ts...>{});
}

// An object that comes and goes.

/// Room for one object of a type that the program decides. std::optional would do, but it generates about 25 functions
/// for each such type, and this class at most eight: in units that are not optimized, compiling those takes the time.
template <class T>
class MadeLater {
 public:
  MadeLater() {}
  ~MadeLater() { reset(); }
  MadeLater(MadeLater const&) = delete;
  MadeLater& operator=(MadeLater const&) = delete;

  template <class... Args>
  void emplace(Args&&... args) {
    reset();
    ::new (static_cast<void*>(std::addressof(object_))) T(std::forward<Args>(args)...);
    is_there_ = true;
  }
  void reset() {
    if (!is_there_) return;
    is_there_ = false;
    object_.~T();
  }

  explicit operator bool() const { return is_there_; }
  T const& operator*() const { return object_; }
  T* operator->() { return std::addressof(object_); }
  T const* operator->() const { return std::addressof(object_); }

 private:
  bool is_there_ = false;
  union {
    T object_;
  };
};

// A pack of objects as indexed bases: empty ones cost nothing, and access is a cast.

/// One value of Slots; its position distinguishes two of the same type. An empty value takes no memory.
template <std::size_t I, class T>
struct Slot {
  [[no_unique_address]] T value;
};

template <class Indices, class... Ts>
struct IndexedSlots;

/// The type at a position.
#if defined(__has_builtin) && __has_builtin(__type_pack_element)
template <std::size_t I, class... Ts>
using TypeAt = __type_pack_element<I, Ts...>;
#else
/// Only the base class is looked up: std::tuple_element instantiates the rest of the list at each position.
template <std::size_t I, class T>
std::type_identity<T> slot_type(Slot<I, T> const*);
/// The type at a position.
template <std::size_t I, class... Ts>
using TypeAt =
    typename decltype(slot_type<I>(std::declval<IndexedSlots<std::index_sequence_for<Ts...>, Ts...> const*>()))::type;
#endif

template <std::size_t... I, class... Ts>
struct IndexedSlots<std::index_sequence<I...>, Ts...> : Slot<I, Ts>... {
  constexpr explicit IndexedSlots(Ts&&... values) : Slot<I, Ts>{std::move(values)}... {}
};

/// Holds the callbacks: `get<I>()` by position, `get<T>()` by type (a rule ensures that each type occurs once).
template <class... Ts>
struct Slots : IndexedSlots<std::index_sequence_for<Ts...>, Ts...> {
  constexpr explicit Slots(Ts&&... values)
      : IndexedSlots<std::index_sequence_for<Ts...>, Ts...>(std::move(values)...) {}
  static constexpr std::size_t size = sizeof...(Ts);
  template <std::size_t I>
  using Type = TypeAt<I, Ts...>;

  template <std::size_t I>
  [[gnu::always_inline]] constexpr Type<I>& get() {
    return static_cast<Slot<I, Type<I>>&>(*this).value;
  }

  template <class T>
  constexpr T& get() {
    return get<index_of<T>()>();
  }

  template <class T>
  static consteval std::size_t index_of() {
    std::size_t at = 0, found = size;
    ((std::is_same_v<T, Ts> ? void(found = at) : void(), ++at), ...);
    return found;
  }
};

// A fact at compile time: yes, no, or known only at run time.

/// A trait such as `Strategy::on_gpu`. With `at_run_time` a rule becomes an early exception instead of a compile error.
enum class Known : std::uint8_t { no, yes, at_run_time };

// The results that a hook may return. Every callback is notified of every event; the maximum of the results decides.

/// Requests that training stops: `void on_train_epoch_end(...)` becomes `Stop on_train_epoch_end(...) { return
/// Stop{wait >= patience}; }`.
struct Stop {
  bool now = true;
};

/// The result of `on_train_batch_start`, which may end an epoch early (Lightning's -1): `return Flow::skip_epoch;`. The
/// loops use this type for every hook; its values are in ascending order of priority.
enum class Flow : std::uint8_t { proceed, skip_epoch, stop };

/// By value on purpose: std::max returns a reference, for which g++ 12 spills a one-byte enum to the stack.
constexpr Flow more_severe(Flow a, Flow b) { return a < b ? b : a; }

/// A hook's result, in the type that the loops use.
constexpr Flow as_flow(Stop answer) { return answer.now ? Flow::stop : Flow::proceed; }
constexpr Flow as_flow(Flow answer) { return answer; }

/// An option that is a list: `{10, 20}`.
template <class T>
struct ListOption : std::vector<T> {
  ListOption() = default;
  ListOption(std::vector<T> values) : std::vector<T>(std::move(values)) {}
  ListOption(std::initializer_list<T> values) : std::vector<T>(values) {}
  /// Refused at compile time: the second number would be another option.
  template <class Number>
    requires std::is_arithmetic_v<Number>
  ListOption(Number) {
    constexpr bool is_list = !std::is_arithmetic_v<Number>;
    static_assert(is_list, "[fulgurite.options.list] an option that is a list is given in braces of its own: write "
                           "schedule::MultiStep{{10, 20}}, or Pipeline{.balance = {2, 1}}");
  }
};

/// The direction in which a metric improves. The default is `min` everywhere and is never guessed from a name: for an
/// accuracy, give Mode::max.
enum class Mode : std::uint8_t { min, max };

/// The type of options that have a Mode; converts from and to Mode.
struct ModeOption {
  Mode mode;

  constexpr ModeOption(Mode which) : mode(which) {}
  /// Refused at compile time: a string could be misspelt.
  template <std::convertible_to<std::string_view> Text>
  ModeOption(Text const&) {
    constexpr bool is_text = std::convertible_to<Text, std::string_view>;
    static_assert(!is_text, "[fulgurite.metric.mode] which way a metric gets better is a constant, not a text: write "
                            ".mode = Mode::max or .mode = Mode::min");
  }
  constexpr operator Mode() const { return mode; }
};

// Types that take the place of a metric where a string or nothing was given, so that the trainer can refuse it in one
// sentence.

/// `EarlyStopping{"val/loss"}` is an `EarlyStopping<MetricText>`. A class that takes a metric gets this from a
/// deduction guide; the trainer refuses every class that lists it in its `Watches`.
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

#define FULGURITE_SENTENCE_NO_METRIC                                                                                   \
  "[fulgurite.callback.no_metric] this callback watches a metric, and none is given: pass the model's constant "       \
  "first, as in EarlyStopping{Net::val_loss, {.patience = 5}}"

/// `EarlyStopping{Net::val_loss, {.patient = 5}}` is an `EarlyStopping<MisspeltOption>`, by a deduction guide that
/// takes everything else. It is an aggregate, so that the compiler itself says which name is no option's, and which is
/// meant.
struct MisspeltOption {
  using metric = MisspeltOption;
  template <class T>
  constexpr MisspeltOption(T const&) {
    constexpr bool is_metric = requires { typename T::metric; };
    static_assert(is_metric, FULGURITE_SENTENCE_NO_METRIC);
  }
  static constexpr std::string_view name() { return {}; }
};

/// Follows a class template CLASS<M> of a metric, whose options are CLASSOptions: a name that these do not have is then
/// refused by the compiler.
#define FULGURITE_REFUSES_MISSPELT_OPTION(CLASS)                                                                       \
  template <>                                                                                                          \
  class CLASS<::fulgurite::MisspeltOption> {                                                                           \
   public:                                                                                                             \
    ::fulgurite::MisspeltOption metric;                                                                                \
    CLASS##Options options = {};                                                                                       \
    void on_fit_start() {}                                                                                             \
    using Stateless = ::fulgurite::ByChoice;                                                                           \
  };                                                                                                                   \
  template <class = void>                                                                                              \
  CLASS(...)->CLASS<::fulgurite::MisspeltOption>

/// The same, and the trainer refuses a metric that is missing, or a text in its place.
#define FULGURITE_REFUSES_WRONG_METRIC(CLASS)                                                                          \
  template <>                                                                                                          \
  class CLASS<::fulgurite::MetricLeftOut> {                                                                            \
   public:                                                                                                             \
    static constexpr bool lacks_metric = true;                                                                         \
    explicit CLASS(CLASS##Options = {}) {}                                                                             \
  };                                                                                                                   \
  CLASS(CLASS##Options = {}) -> CLASS<::fulgurite::MetricLeftOut>;                                                     \
  template <std::convertible_to<std::string_view> Text>                                                                \
  CLASS(Text const&, ...) -> CLASS<::fulgurite::MetricText>;                                                           \
  FULGURITE_REFUSES_MISSPELT_OPTION(CLASS)

/// What options are not: a number, a word or a text in their place has no name.
template <class T>
concept Unnamed = std::is_arithmetic_v<T> || std::is_enum_v<T> || std::convertible_to<T, std::string_view>;

/// The compile error of a constructor that takes such a value in place of its options.
template <class T>
constexpr void refuse_unnamed(T const&) {
  constexpr bool has_name = !Unnamed<T>;
  static_assert(has_name, "[fulgurite.callback.unnamed_option] options are given by their names, in braces of their "
                          "own: write ProgressBar{{.leave = true}}, CSVLogger{\"logs\", {.name = \"mlp\"}} or "
                          "EarlyStopping{Net::val_loss, {.patience = 5}}");
}

// Overload resolution fails where braces name a field that the options do not have, and compilers then list every
// constructor. A deleted one that takes everything else is chosen instead. It is a template, so that any other is
// preferred. Compilers that print no reason of a deleted function print its parameter: [with
// fulgurite_callback_no_such_option_of = ProgressBarOptions]. g++ 12 is given the parameters before the options, if
// there are any: it also tries the deleted one for the argument of a move constructor, and finds `Timer{30s}`
// ambiguous.

#if defined(__clang__) && defined(__cpp_deleted_function) && __cpp_deleted_function >= 202403L
#define FULGURITE_REFUSED(SENTENCE)                                                                                    \
  _Pragma("clang diagnostic push") _Pragma("clang diagnostic ignored \"-Wc++26-extensions\"") =                        \
      delete (SENTENCE)_Pragma("clang diagnostic pop")
#else
#define FULGURITE_REFUSED(SENTENCE) = delete
#endif
#if defined(__clang__)
#define FULGURITE_ANYTHING_AFTER(...) ...
#else
#define FULGURITE_ANYTHING_AFTER(...) __VA_ARGS__ __VA_OPT__(, )...
#endif
#define FULGURITE_SENTENCE_NO_SUCH_OPTION                                                                              \
  "[fulgurite.callback.no_such_option] this class has no such option, or its value has another type: the options of "  \
  "ProgressBar{{.leave = true}} are the members of ProgressBarOptions, and likewise for other classes"

/// In a class whose constructor takes options: refuses one without a name, after the parameters given here, and names
/// that the options do not have.
#define FULGURITE_NAMED_OPTIONS(CLASS, ...)                                                                            \
  template <::fulgurite::Unnamed T>                                                                                    \
  explicit CLASS(__VA_ARGS__ __VA_OPT__(, ) T const& given) : CLASS() {                                                \
    ::fulgurite::refuse_unnamed(given);                                                                                \
  }                                                                                                                    \
  template <class fulgurite_callback_no_such_option_of = CLASS##Options>                                               \
  explicit CLASS(FULGURITE_ANYTHING_AFTER(__VA_ARGS__)) FULGURITE_REFUSED(FULGURITE_SENTENCE_NO_SUCH_OPTION)

/// Takes the place of the option `monitor` of Lightning's callbacks. Naming it is refused, and so are options without
/// names, the first of which would be this one.
struct MonitorOption {
  constexpr MonitorOption() = default;
  template <class T>
  MonitorOption(T const& given) {
    constexpr bool is_option = std::is_arithmetic_v<T> || std::is_enum_v<T>;
    if constexpr (is_option) refuse_unnamed(given);
    static_assert(is_option, "[fulgurite.callback.monitor] the metric is no option of a callback, and no text: pass "
                             "the model's constant first, as in EarlyStopping{Net::val_loss, {.patience = 5}}");
  }
};

// A folder in options that are compile-time constants: the default allocates nothing.

/// The current folder, or the given one. A std::filesystem::path cannot be a constant, so one is made only if a folder
/// is given.
class RootFolder {
 public:
  constexpr RootFolder() = default;
  template <class T>
    requires(std::constructible_from<std::filesystem::path, T> && !std::same_as<std::remove_cvref_t<T>, RootFolder>)
  RootFolder(T&& path) : given_(new std::filesystem::path(std::forward<T>(path))) {}
  constexpr RootFolder(RootFolder const& other)
      : given_(other.given_ ? new std::filesystem::path(*other.given_) : nullptr) {}
  constexpr RootFolder(RootFolder&& other) noexcept : given_(std::exchange(other.given_, nullptr)) {}
  constexpr RootFolder& operator=(RootFolder other) noexcept {
    std::swap(given_, other.given_);
    return *this;
  }
  constexpr ~RootFolder() {
    if (given_) delete given_;
  }

  std::filesystem::path path() const;
  operator std::filesystem::path() const { return path(); }
  friend std::filesystem::path operator/(RootFolder const& folder, std::filesystem::path const& name) {
    return folder.path() / name;
  }

 private:
  std::filesystem::path* given_ = nullptr;
};

// A reference to a function, for the duration of a call, so that functions which take one need not be templates. It
// generates one function for each referenced one, where std::function generates a dozen.

/// The same as std::is_invocable_r for objects that are called, but compilers evaluate it in a fraction of the time,
/// and each trainer makes some thirty references.
template <class F, class Result, class... Args>
concept LentAs = requires(F& f, Args&&... args) { static_cast<Result>(f(static_cast<Args&&>(args)...)); };

/// Two pointers: to a callable object, which must live as long as this, and to the function that calls it. A default
/// one is empty: it converts to false, and must not be called.
///   void each_weight(FunctionRef<void(std::string_view)> take);   each_weight([&](std::string_view name) { ... });
template <class Signature>
class FunctionRef;

template <class Result, class... Args>
class FunctionRef<Result(Args...)> {
 public:
  FunctionRef() = default;
  FunctionRef(std::nullptr_t) {}
  template <class F>
    requires(!std::same_as<std::remove_cvref_t<F>, FunctionRef> && LentAs<F, Result, Args...>)
  [[gnu::always_inline]] FunctionRef(F&& f)
      : what_(const_cast<void*>(static_cast<void const*>(std::addressof(f)))),
        how_(&call<std::remove_reference_t<F>>) {}

  /// Refers to a member function of an object, which must live as long as this.
  template <auto Member, class T>
  static FunctionRef to(T& object) {
    FunctionRef made;
    made.what_ = const_cast<void*>(static_cast<void const*>(std::addressof(object)));
    made.how_ = &call_member<Member, T>;
    return made;
  }

  Result operator()(Args... args) const { return how_(what_, std::forward<Args>(args)...); }
  explicit operator bool() const { return how_ != nullptr; }

 private:
  template <class F>
  static Result call(void* what, Args... args) {
    return static_cast<Result>((*static_cast<F*>(what))(std::forward<Args>(args)...));
  }
  template <auto Member, class T>
  static Result call_member(void* what, Args... args) {
    return (static_cast<T*>(what)->*Member)(std::forward<Args>(args)...);
  }

  void* what_ = nullptr;
  Result (*how_)(void*, Args...) = nullptr;
};

// Sorting where speed does not matter: files, names, entries of a file. std::sort generates about four kilobytes of
// code for each type and each order, in every program; this is one function for all of them.

/// Sorts `count` positions, to which only the two functions have access, by a heap: at most 2 n log n comparisons.
void sort_places(std::size_t count, FunctionRef<bool(std::size_t, std::size_t)> before,
                 FunctionRef<void(std::size_t, std::size_t)> exchange);

/// Sorts a contiguous range, like std::sort: the order of equal elements is unspecified.
///   sort_seldom(files);   sort_seldom(rows, [](Row const& a, Row const& b) { return a.size < b.size; });
template <class Range, class Before = std::less<>>
void sort_seldom(Range& range, Before before = {}) {
  auto* const first = std::data(range);
  sort_places(
      std::size(range), [&](std::size_t a, std::size_t b) { return before(first[a], first[b]); },
      [&](std::size_t a, std::size_t b) {
        using std::swap;
        swap(first[a], first[b]);
      });
}

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/core/types.ipp>
#endif
