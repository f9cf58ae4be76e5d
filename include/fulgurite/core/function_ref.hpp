#pragma once
// A reference to a function, for the duration of a call, so that functions which take one need not be templates. It
// generates one function for each referenced one, where std::function generates a dozen.

#include <concepts>
#include <cstddef>
#include <functional>
#include <iterator>
#include <memory>
#include <type_traits>
#include <utility>

#include <fulgurite/core/body.hpp>

namespace fulgurite {

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
#include <fulgurite/core/function_ref.ipp>
#endif
