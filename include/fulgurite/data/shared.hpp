#pragma once
// Data that all processes of a machine read in the same memory: data::shared(strategy, make).

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/concept/concepts.hpp>
#include <fulgurite/core/body.hpp>

namespace fulgurite::data {

// Bytes that several processes of one machine share in memory. The memory has no name, so it is freed when the last
// process that maps it ends, however it ends.

/// The content for shared memory, part by part. Borrowed parts must live until they are written.
class SharedParts {
 public:
  void borrow(std::span<std::byte const> part) { parts_.push_back(part); }
  template <class Number>
  void number(Number value) {
    copy(std::as_bytes(std::span(&value, 1)));
  }
  /// Keeps an owner alive until everything is written.
  void keep(std::shared_ptr<void const> owner);
  std::vector<std::span<std::byte const>> const& all() const { return parts_; }

 private:
  void copy(std::span<std::byte const> part);

  std::vector<std::span<std::byte const>> parts_;
  std::list<std::vector<std::byte>> kept_;
  std::vector<std::shared_ptr<void const>> owners_;
};

/// A mapping that is read-only in every process. It lives as long as this object.
class SharedMemory : Pinned {
 public:
  /// Each part begins at a multiple of this many bytes, after one unit that holds the part's length.
  static constexpr std::size_t unit = 64;

  /// Makes shared memory from parts. Throws [fulgurite.data.shared_memory] if there is not enough memory.
  static std::shared_ptr<SharedMemory const> of(SharedParts const& parts);

  /// Maps the memory of another process of this machine, given the result of its `address()`.
  static std::shared_ptr<SharedMemory const> at(std::string const& address);

  ~SharedMemory();

  std::span<std::byte const> bytes() const;
  /// The argument for `at` in another process. Valid until `leave` is called.
  std::string address() const;
  /// Closes the file; the mapping stays.
  void leave() const;

 private:
  explicit SharedMemory(int file) : file_(file) {}

  [[noreturn]] static void refuse(std::string const& what, int problem);
  void write(std::span<std::byte const> from);

  mutable int file_;
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Reads parts in the order in which they were given.
class SharedReader {
 public:
  explicit SharedReader(std::shared_ptr<SharedMemory const> memory) : memory_(std::move(memory)) {}

  std::span<std::byte const> next();
  template <class Number>
  Number number() {
    Number value{};
    std::memcpy(&value, next().data(), sizeof value);
    return value;
  }
  std::shared_ptr<SharedMemory const> const& memory() const { return memory_; }

 private:
  std::shared_ptr<SharedMemory const> memory_;
  std::size_t at_ = 0;
};

// How values are stored in shared memory, and which types represent them in the processes that map it.

/// Read-only values in shared memory: a range like `std::vector<T> const`. A std::span of it refers to the same memory,
/// and copies share it.
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

/// `put(parts, value)` stores a value, `take(reader)` makes the object that represents it in each process. There are
/// specializations for vectors of numbers and of plain structs, for pairs, tuples and vectors of types that have one,
/// and, with torch/data/stack.hpp, for tensors; you may specialize it for your own type:
///
///     template <>
///     struct fulgurite::data::SharedForm<Text> {
///       using Words = SharedForm<std::vector<int>>;
///       static void put(SharedParts& parts, Text const& text) { Words::put(parts, text.words); }
///       static auto take(SharedReader& reader) { return Words::take(reader); }
///     };
template <class T>
struct SharedForm;

/// A type that `data::shared` can store.
template <class T>
concept HasSharedForm = requires(SharedParts& parts, T const& value, SharedReader& reader) {
  SharedForm<T>::put(parts, value);
  SharedForm<T>::take(reader);
};

/// A type that can be copied as bytes and has the same meaning in another process: no pointer, no std::string_view or
/// std::span. A struct must not contain these either, which cannot be checked.
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

/// The machine and the container that this process runs on: processes with the same result can map each other's memory.
std::string machine_of_this_process();

/// The address of the memory that rank `rank` has to map: of the ranks on its machine, the last one up to `rank` that
/// made some. Each element of `said` comes from one rank: its machine, a line feed, and an address or nothing.
std::string address_for(std::size_t rank, std::vector<std::string> const& said);

/// False if a strategy has one of these functions, and it cannot be called: then the data would not be shared, or a
/// failure would leave the other ranks waiting.
template <class Strategy>
consteval bool calls_ranks() {
  using namespace hook::of_strategy;
  return (!gather::named<Strategy> || gather::accepts_given<Strategy, std::string>) &&
         (!abort::named<Strategy> || abort::accepts_given<Strategy, char const*>);
}

/// `shared` for a type that has a SharedForm.
template <HasSharedForm Made, class Strategy, class Make>
auto shared_by_ranks(Strategy& strategy, Make& make) {
  auto const made = [&] {
    auto const value = make();
    SharedParts parts;
    SharedForm<Made>::put(parts, value);
    return SharedMemory::of(parts);
  };
  auto const or_abort = [&](auto&& action) {
    try {
      return action();
    } catch (std::exception const& error) {
      if constexpr (hook::of_strategy::abort::named<Strategy>) strategy.abort(error.what());
      throw;
    }
  };
  std::shared_ptr<SharedMemory const> memory;
  if constexpr (hook::of_strategy::gather::named<Strategy>) {
    strategy.barrier("data that ranks share");
    if (strategy.local_rank() == 0) memory = or_abort(made);
    auto const said =
        strategy.gather(machine_of_this_process().append("\n").append(memory ? memory->address() : std::string()));
    if (!memory)
      memory = or_abort([&] { return SharedMemory::at(address_for(static_cast<std::size_t>(strategy.rank()), said)); });
    strategy.barrier("mapping shared data");
  } else {
    memory = made();
  }
  memory->leave();
  SharedReader reader(std::move(memory));
  return SharedForm<Made>::take(reader);
}

/// Puts data that do not change into memory once per machine, however many ranks it has:
///
///     auto [images, labels] = data::shared(strategy, [] { return std::pair{read_images(), read_labels()}; });
///
/// One rank of a machine calls `make`. Its result is copied into shared memory, and every rank, including that one,
/// gets a read-only view: a SharedVector<T> for a std::vector<T>, a tensor for a tensor (torch/data/stack.hpp), a pair,
/// tuple or vector of these. A program that writes to it is killed (SIGSEGV). This is a collective of all ranks; the
/// others wait for `make` no longer than the strategy's `.timeout`. It works in a single process, too.
///
/// The memory has no name and is freed with its last view or its last process, even after SIGKILL. It uses one file
/// handle for any number of tensors, and none once all ranks have mapped it. Errors: the exception of `make`, which the
/// other ranks receive as well; [fulgurite.data.shared_memory]; [fulgurite.data.shared_machine].
template <class Strategy, class Make>
auto shared(Strategy&& strategy, Make&& make) {
  using Made = std::remove_cvref_t<std::invoke_result_t<Make&>>;
  constexpr bool shareable = HasSharedForm<Made>;  // named, since g++ would explain each requirement of a concept
  static_assert(shareable, "[fulgurite.data.shareable] data::shared keeps vectors of numbers or plain structs, tensors "
                           "(torch/data/stack.hpp), and pairs, tuples and vectors of these: return such, or "
                           "specialize data::SharedForm for this type");
  constexpr bool callable = calls_ranks<std::remove_reference_t<Strategy>>();
  static_assert(callable, "[fulgurite.data.shared_strategy] data::shared cannot call gather or abort of this strategy: "
                          "make them public functions, gather(std::string bytes) and abort(std::string_view text)");
  if constexpr (shareable && callable) return shared_by_ranks<Made>(strategy, make);
  else return make();
}

}  // namespace fulgurite::data

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/data/shared.ipp>
#endif
