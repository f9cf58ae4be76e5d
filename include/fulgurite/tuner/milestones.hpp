#pragma once
// Epochs before which a callback searches again.

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>

namespace fulgurite::tune {

/// Errors: [fulgurite.tuner.milestone]. `whose`: the callback that has them.
FULGURITE_COLD void check_milestones(std::string_view whose, std::vector<int> const& epochs) {
  for (int const epoch : epochs)
    if (epoch < 0)
      throw Error("fulgurite.tuner.milestone",
                  std::string(whose) + " has a milestone of " + std::to_string(epoch) + ": epochs count from 0");
}

/// Whether a search is due before this epoch.
inline bool is_milestone(int epoch, std::vector<int> const& epochs) {
  return std::find(epochs.begin(), epochs.end(), epoch) != epochs.end();
}

}  // namespace fulgurite::tune
