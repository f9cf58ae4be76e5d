#pragma once
// The bodies of core/types.hpp.

#include <fulgurite/core/types.hpp>

namespace fulgurite {

FULGURITE_BULK_BODY std::filesystem::path RootFolder::path() const {
  return given_ ? *given_ : std::filesystem::path(".");
}

}  // namespace fulgurite
