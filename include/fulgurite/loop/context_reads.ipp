#pragma once
// The bodies of loop/context_reads.hpp.

#include <fulgurite/loop/context_reads.hpp>

namespace fulgurite::loop {

FULGURITE_BULK_BODY WrongReplay::WrongReplay(std::string const& why, bool same, std::string const& no_way)
    : Error("fulgurite.capture.wrong_replay",
            "steps of this fit were replayed wrongly since the last check, and it cannot go back, since " + no_way +
                ": " + why + ". Use the strategy without Captured"),
      reason(why),
      same_model(same) {}

}  // namespace fulgurite::loop
