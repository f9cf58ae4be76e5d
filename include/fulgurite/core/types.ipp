#pragma once
// The bodies of core/types.hpp.

#include <fulgurite/core/types.hpp>

namespace fulgurite {

FULGURITE_BULK_BODY std::filesystem::path RootFolder::path() const {
  return given_ ? *given_ : std::filesystem::path(".");
}

FULGURITE_BODY void sort_places(std::size_t count, FunctionRef<bool(std::size_t, std::size_t)> before,
                                FunctionRef<void(std::size_t, std::size_t)> exchange) {
  auto const sink = [&](std::size_t at, std::size_t end) {
    for (std::size_t child = 2 * at + 1; child < end; at = child, child = 2 * at + 1) {
      if (child + 1 < end && before(child, child + 1)) ++child;
      if (!before(at, child)) return;
      exchange(at, child);
    }
  };
  for (std::size_t at = count / 2; at-- != 0;) sink(at, count);
  for (std::size_t end = count; end > 1;) {
    exchange(0, --end);
    sink(0, end);
  }
}

}  // namespace fulgurite
