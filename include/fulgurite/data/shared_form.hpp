#pragma once
// How values lie in shared memory, and what the processes that map it hold in their place.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <ranges>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/data/shared_memory.hpp>

namespace fulgurite::data {

/// Values in shared memory, which nobody can write: a range like `std::vector<T> const`, and a std::span of it is one
/// of the same memory. Copies share it.
template <class T>
class SharedVector {
 public:
  using value_type = T;

  SharedVector(std::shared_ptr<SharedMemory const> memory, std::span<T const> values)
      : memory_(std::move(memory)), values_(values) {}

  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }
  std::size_t size() const { return values_.size(); }
  bool empty() const { return values_.empty(); }
  T const* data() const { return values_.data(); }
  T const& operator[](std::size_t i) const { return values_[i]; }

 private:
  std::shared_ptr<SharedMemory const> memory_;
  std::span<T const> values_;
};

/// `put(parts, value)` says what of a value is kept, `take(reader)` makes what stands for it in each process. There is
/// one for vectors of numbers and of plain structs, for pairs, tuples and vectors of what has one, and, with
/// torch/data/shared.hpp, for tensors; a type of yours may specialize it.
template <class T>
struct SharedForm;

/// What `data::shared` can keep.
template <class T>
concept HasSharedForm = requires(SharedParts& parts, T const& value, SharedReader& reader) {
  SharedForm<T>::put(parts, value);
  SharedForm<T>::take(reader);
};

/// Copied as bytes, and means the same in another process: no pointer, no std::string_view or std::span. Of a struct of
/// yours nobody can see what is in it, so it must not hold such either.
template <class T>
concept PlainValue = std::is_trivially_copyable_v<T> && !std::is_pointer_v<T> && !std::is_same_v<T, bool> &&
                     !std::ranges::enable_view<T>;

template <PlainValue T>
struct SharedForm<std::vector<T>> {
  static void put(SharedParts& parts, std::vector<T> const& values) { parts.borrow(std::as_bytes(std::span(values))); }
  static SharedVector<T> take(SharedReader& reader) {
    auto const part = reader.next();
    return {reader.memory(), {reinterpret_cast<T const*>(part.data()), part.size() / sizeof(T)}};
  }
};

template <HasSharedForm T>
  requires(!PlainValue<T>)
struct SharedForm<std::vector<T>> {
  static void put(SharedParts& parts, std::vector<T> const& values) {
    parts.number<std::uint64_t>(values.size());
    for (auto const& value : values) SharedForm<T>::put(parts, value);
  }
  static auto take(SharedReader& reader) {
    std::vector<decltype(SharedForm<T>::take(reader))> all;
    for (auto left = reader.number<std::uint64_t>(); left != 0; --left) all.push_back(SharedForm<T>::take(reader));
    return all;
  }
};

template <HasSharedForm... Ts>
struct SharedForm<std::tuple<Ts...>> {
  static void put(SharedParts& parts, std::tuple<Ts...> const& values) {
    std::apply([&](auto const&... value) { (SharedForm<Ts>::put(parts, value), ...); }, values);
  }
  static auto take(SharedReader& reader) {
    return std::tuple<decltype(SharedForm<Ts>::take(reader))...>{SharedForm<Ts>::take(reader)...};  // in order
  }
};

template <HasSharedForm A, HasSharedForm B>
struct SharedForm<std::pair<A, B>> {
  static void put(SharedParts& parts, std::pair<A, B> const& values) {
    SharedForm<A>::put(parts, values.first);
    SharedForm<B>::put(parts, values.second);
  }
  static auto take(SharedReader& reader) { return std::pair{SharedForm<A>::take(reader), SharedForm<B>::take(reader)}; }
};

}  // namespace fulgurite::data
