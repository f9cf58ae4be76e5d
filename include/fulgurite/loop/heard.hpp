#pragma once
// Part of a run's state: who has heard an event that failed on its way. A fit that goes on tells the others alone.

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace fulgurite::loop {

/// Filled where a hook throws; empty at all other times.
struct Heard {
  std::string event = {};            ///< the hook's name; empty: none failed
  std::vector<std::string> by = {};  ///< the names under which their states are kept; of the model and the strategy too

  template <class Hook>
  bool failed() const {
    return event == Hook::name();
  }
  bool contains(std::string_view name) const { return std::find(by.begin(), by.end(), name) != by.end(); }

  void state(auto& archive) { archive("event", event)("by", by); }
};

}  // namespace fulgurite::loop
