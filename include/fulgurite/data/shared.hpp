#pragma once
// Data that all processes of a machine read in one and the same memory: data::shared(strategy, make).

#include <exception>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <unistd.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/data/shared_form.hpp>

namespace fulgurite::data {

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
/// a view of it: a SharedVector<T> for a std::vector<T>, a tensor for a tensor (torch/data/shared.hpp), a pair, tuple
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
                           "(torch/data/shared.hpp), and pairs, tuples and vectors of these: return such, or "
                           "specialize data::SharedForm for this type");
  if constexpr (shareable) return shared_by_ranks<Made>(strategy, make);
  else return make();
}

}  // namespace fulgurite::data
