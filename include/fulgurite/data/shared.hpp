#pragma once
// Data that all processes of a machine read in one and the same memory: data::shared(strategy, make).

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

#include <fulgurite/core/body.hpp>

namespace fulgurite::data {

// Bytes that several processes of one machine see, once in memory. No name leads to them: they are gone when the last
// process that sees them ends, however it ends.

/// What is to lie in shared memory, part by part. Borrowed parts have to live until they are written.
class SharedParts {
 public:
  void borrow(std::span<std::byte const> part);
  template <class Number>
  void number(Number value) {
    copy(std::as_bytes(std::span(&value, 1)));
  }
  /// Until all is written.
  void keep(std::shared_ptr<void const> owner);
  std::vector<std::span<std::byte const>> const& all() const { return parts_; }

 private:
  void copy(std::span<std::byte const> part);

  std::vector<std::span<std::byte const>> parts_;
  std::list<std::vector<std::byte>> kept_;
  std::vector<std::shared_ptr<void const>> owners_;
};

/// A mapping that can only be read, in every process. It lives as long as this object.
class SharedMemory {
 public:
  /// Each part begins at a multiple of so many bytes, behind one unit that says how long it is.
  static constexpr std::size_t unit = 64;

  /// Makes it from parts. Error [fulgurite.data.shared_memory] where there is no room.
  static std::shared_ptr<SharedMemory const> of(SharedParts const& parts);

  /// That of another process of this machine, which says where it is by `address()`.
  static std::shared_ptr<SharedMemory const> at(std::string const& address);

  SharedMemory(SharedMemory const&) = delete;
  SharedMemory& operator=(SharedMemory const&) = delete;
  ~SharedMemory();

  std::span<std::byte const> bytes() const;
  /// For `at`, in another process, as long as `leave` was not called.
  std::string address() const;
  /// Closes the file; what is mapped stays.
  void leave() const;

 private:
  explicit SharedMemory(int file) : file_(file) {}

  [[noreturn]] static void refuse(std::string const& what, int problem);
  void write(std::span<std::byte const> from);
  void map();

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

// How values lie in shared memory, and what the processes that map it hold in their place.

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
/// torch/data/stack.hpp, for tensors; a type of yours may specialize it.
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

/// Which machine, and which of its containers, this process runs on: processes that say the same see each other.
std::string machine_of_this_process();

/// Where the memory is that the rank with the number `rank` is to map: of those that say they are on the same machine,
/// the last before it that made some. Each line is what a rank said: its machine, a line feed, an address or nothing.
std::string address_for(std::size_t rank, std::vector<std::string> const& said);

/// What `shared` does with what can be shared.
template <HasSharedForm Made, class Strategy, class Make>
auto shared_by_ranks(Strategy& strategy, Make& make) {
  auto const made = [&] {
    auto const value = make();
    SharedParts parts;
    SharedForm<Made>::put(parts, value);
    return SharedMemory::of(parts);
  };
  auto const telling = [&](auto&& action) {
    try {
      return action();
    } catch (std::exception const& error) {
      if constexpr (requires { strategy.abort(error.what()); }) strategy.abort(error.what());
      throw;
    }
  };
  std::shared_ptr<SharedMemory const> memory;
  if constexpr (requires { strategy.gather(std::string()); }) {
    strategy.barrier("data that ranks share");
    if (strategy.local_rank() == 0) memory = telling(made);
    auto const said =
        strategy.gather(machine_of_this_process().append("\n").append(memory ? memory->address() : std::string()));
    if (!memory)
      memory = telling([&] { return SharedMemory::at(address_for(static_cast<std::size_t>(strategy.rank()), said)); });
    strategy.barrier("mapping shared data");
  } else {
    memory = made();
  }
  memory->leave();
  SharedReader reader(std::move(memory));
  return SharedForm<Made>::take(reader);
}

/// Data that do not change, once in the memory of each machine, however many ranks it has:
///
///     auto [images, labels] = data::shared(strategy, [] { return std::pair{read_images(), read_labels()}; });
///
/// One rank of a machine calls `make`; what it returned is copied into shared memory, and all ranks, that one too, get
/// a view of it: a SharedVector<T> for a std::vector<T>, a tensor for a tensor (torch/data/stack.hpp), a pair, tuple
/// or vector of these. Nobody can write to it: a program that does is killed (SIGSEGV). A collective of all ranks; the
/// others wait for `make` no longer than the strategy's `.timeout`. With one process it is the same, without the
/// others.
///
/// The memory has no name and is freed when the last view of it is gone, or the last process, even by SIGKILL. However
/// many tensors there are, it is one file handle, and none once all have mapped it. Errors: what `make` throws, which
/// the others are told; [fulgurite.data.shared_memory]; [fulgurite.data.shared_machine].
template <class Strategy, class Make>
auto shared(Strategy&& strategy, Make&& make) {
  using Made = std::remove_cvref_t<std::invoke_result_t<Make&>>;
  constexpr bool shareable = HasSharedForm<Made>;  // by a name: of a concept g++ would explain each requirement
  static_assert(shareable, "[fulgurite.data.shareable] data::shared keeps vectors of numbers or plain structs, tensors "
                           "(torch/data/stack.hpp), and pairs, tuples and vectors of these: return such, or "
                           "specialize data::SharedForm for this type");
  if constexpr (shareable) return shared_by_ranks<Made>(strategy, make);
  else return make();
}

}  // namespace fulgurite::data

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/data/shared.ipp>
#endif
