#pragma once
// Data that all processes of a machine read in one and the same memory: data::shared(strategy, make).

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <fstream>
#include <list>
#include <memory>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>

namespace fulgurite::data {

// Bytes that several processes of one machine see, once in memory. No name leads to them: they are gone when the last
// process that sees them ends, however it ends.

/// What is to lie in shared memory, part by part. Borrowed parts have to live until they are written.
class SharedParts {
 public:
  void borrow(std::span<std::byte const> part) { parts_.push_back(part); }
  template <class Number>
  void number(Number value) {
    auto const* const bytes = reinterpret_cast<std::byte const*>(&value);
    borrow(kept_.emplace_back(bytes, bytes + sizeof value));
  }
  /// Until all is written.
  void keep(std::shared_ptr<void const> owner) { owners_.push_back(std::move(owner)); }
  std::vector<std::span<std::byte const>> const& all() const { return parts_; }

 private:
  std::vector<std::span<std::byte const>> parts_ = {};
  std::list<std::vector<std::byte>> kept_ = {};
  std::vector<std::shared_ptr<void const>> owners_ = {};
};

/// A mapping that can only be read, in every process. It lives as long as this object.
class SharedMemory {
 public:
  /// Each part begins at a multiple of so many bytes, behind one unit that says how long it is.
  static constexpr std::size_t unit = 64;

  /// Makes it from parts. Error [fulgurite.data.shared_memory] where there is no room.
  static std::shared_ptr<SharedMemory const> of(SharedParts const& parts) {
    int const file = ::memfd_create("fulgurite-data", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (file < 0) refuse("making it", errno);
    std::shared_ptr<SharedMemory> made(new SharedMemory(file));
    for (auto const& part : parts.all()) {
      std::uint64_t const size = part.size();
      made->write(std::as_bytes(std::span(&size, 1)));
      made->write(part);
    }
    // From here on nobody can change it, through whatever mapping.
    if (::fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) != 0)
      refuse("sealing it", errno);
    made->map();
    return made;
  }

  /// That of another process of this machine, which says where it is by `address()`.
  static std::shared_ptr<SharedMemory const> at(std::string const& address) {
    int const file = ::open(address.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) refuse("opening " + address, errno);
    std::shared_ptr<SharedMemory> made(new SharedMemory(file));
    struct stat about{};
    if (::fstat(file, &about) != 0) refuse("looking at " + address, errno);
    made->size_ = static_cast<std::size_t>(about.st_size);
    made->map();
    return made;
  }

  SharedMemory(SharedMemory const&) = delete;
  SharedMemory& operator=(SharedMemory const&) = delete;
  ~SharedMemory() {
    if (data_ != nullptr) ::munmap(data_, size_);
    leave();
  }

  std::span<std::byte const> bytes() const { return {static_cast<std::byte const*>(data_), size_}; }
  /// For `at`, in another process, as long as `leave` was not called.
  std::string address() const { return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(file_); }
  /// Closes the file; what is mapped stays.
  void leave() const {
    if (file_ >= 0) ::close(std::exchange(file_, -1));
  }

 private:
  explicit SharedMemory(int file) : file_(file) {}

  [[noreturn]] static void refuse(std::string const& what, int problem) {
    throw Error("fulgurite.data.shared_memory",
                "data cannot lie in memory that ranks share (" + what + ": " +
                    std::generic_category().message(problem) +
                    "): the processes have to run as one user, in one container, with memory enough for the data "
                    "once; else give each its own copy, without data::shared");
  }
  void write(std::span<std::byte const> from) {
    for (std::size_t done = 0; done != from.size();) {
      auto const count = ::pwrite(file_, from.data() + done, from.size() - done, static_cast<off_t>(size_ + done));
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) refuse("filling it", errno);
      done += static_cast<std::size_t>(count);
    }
    size_ = (size_ + from.size() + unit - 1) / unit * unit;
    if (::ftruncate(file_, static_cast<off_t>(size_)) != 0) refuse("filling it", errno);
  }
  void map() {
    if (size_ == 0) return;
    void* const at = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file_, 0);
    if (at == MAP_FAILED) refuse("mapping it", errno);
    data_ = at;
  }

  mutable int file_;
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Reads parts in the order in which they were given.
class SharedReader {
 public:
  explicit SharedReader(std::shared_ptr<SharedMemory const> memory) : memory_(std::move(memory)) {}

  std::span<std::byte const> next() {
    std::uint64_t size = 0;
    std::memcpy(&size, memory_->bytes().data() + at_, sizeof size);
    auto const part = memory_->bytes().subspan(at_ + SharedMemory::unit, static_cast<std::size_t>(size));
    at_ += SharedMemory::unit + (part.size() + SharedMemory::unit - 1) / SharedMemory::unit * SharedMemory::unit;
    return part;
  }
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
FULGURITE_COLD std::string machine_of_this_process() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  char space[64] = {};
  auto const length = ::readlink("/proc/self/ns/pid", space, sizeof space - 1);
  return boot.append(" ").append(space, length > 0 ? static_cast<std::size_t>(length) : 0);
}

/// Where the memory is that the rank with the number `rank` is to map: of those that say they are on the same machine,
/// the last before it that made some. Each line is what a rank said: its machine, a line feed, an address or nothing.
FULGURITE_COLD std::string address_for(std::size_t rank, std::vector<std::string> const& said) {
  auto const machine = [](std::string_view line) { return line.substr(0, line.find('\n')); };
  for (auto r = rank + 1; r-- != 0;)
    if (machine(said[r]) == machine(said[rank]) && machine(said[r]).size() + 1 < said[r].size())
      return said[r].substr(said[r].find('\n') + 1);
  throw Error("fulgurite.data.shared_machine",
              "rank " + std::to_string(rank) +
                  " sees no memory of a rank before it: its launcher says that another process of its machine made the "
                  "data, and that one is in another container or on another machine; start the ranks of a machine in "
                  "one container, or leave data::shared out");
}

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
