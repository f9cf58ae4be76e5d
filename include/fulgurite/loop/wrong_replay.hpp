#pragma once
// What a strategy throws whose check finds that steps were replayed wrongly.

#include <string>

#include <fulgurite/core/error.hpp>

namespace fulgurite::loop {

/// The fit goes back to where all was well; where it cannot, this is what ends it. `reason`: what the user's code did,
/// for the warning. `same_model`: it consists of the tensors that it had. `no_way`: why the fit cannot go back.
class WrongReplay : public Error {
 public:
  WrongReplay(std::string const& why, bool same, std::string const& no_way = "nobody has asked")
      : Error("fulgurite.capture.wrong_replay",
              "steps of this fit were replayed wrongly since the last check, and it cannot go back, since " + no_way +
                  ": " + why + ". Use the strategy without Captured"),
        reason(why),
        same_model(same) {}
  std::string reason;
  bool same_model;
};

}  // namespace fulgurite::loop
