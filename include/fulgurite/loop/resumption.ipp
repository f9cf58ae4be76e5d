#pragma once
// The bodies of loop/resumption.hpp.

#include <fulgurite/loop/resumption.hpp>

namespace fulgurite::loop {

FULGURITE_BULK_BODY void refuse_other_shares(long consumed, long then, long now) {
  throw Error("fulgurite.resume.ranks", "the run stopped after " + std::to_string(consumed) +
                                            " batches of an epoch that " + std::to_string(then) +
                                            (then == 1 ? " process" : " processes") + " shared, and there " +
                                            (now == 1 ? "is " : "are ") + std::to_string(now) +
                                            " now: resume with as many, or from a checkpoint written between epochs");
}

}  // namespace fulgurite::loop
