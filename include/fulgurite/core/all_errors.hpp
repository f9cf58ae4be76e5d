#pragma once
// Several things that are wrong at once, as one Error.

#include <string>
#include <string_view>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>

namespace fulgurite {

/// One Error stays as it is. Several are one of a saved state, whose sentence has them all.
FULGURITE_COLD Error all_of(std::vector<Error> const& errors) {
  constexpr std::string_view together = "fulgurite.checkpoint.state_entry";
  if (errors.size() == 1) return errors.front();
  std::string all;
  for (auto const& error : errors) {
    std::string_view said = error.what();
    if (error.identifier() == together) said.remove_prefix(together.size() + 3);
    if (!all.empty()) all += "; ";
    all += said;
  }
  return {together, all};
}

}  // namespace fulgurite
