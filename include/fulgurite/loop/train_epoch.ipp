#pragma once
// The bodies of loop/train_epoch.hpp.

#include <fulgurite/loop/train_epoch.hpp>

namespace fulgurite::loop {

FULGURITE_BODY void warn_of_left_out(Warn warn, long batch, int epoch) {
  warn("fulgurite.data.none", "batch " + std::to_string(batch) + " of epoch " + std::to_string(epoch) +
                                  " is none, an empty optional: it is skipped, and so are others that follow");
}

FULGURITE_BODY void refuse_empty_epoch(int epoch) {
  throw Error("fulgurite.data.empty", "the training loader had no batch in epoch " + std::to_string(epoch) +
                                          ": begin() must start a new pass each time");
}

}  // namespace fulgurite::loop
