#pragma once
// The bodies of loop/loader_state.hpp.

#include <fulgurite/core/error.hpp>
#include <fulgurite/loop/loader_state.hpp>

namespace fulgurite::loop {

FULGURITE_BULK_BODY void refuse_short(long consumed, long had) {
  throw Error("fulgurite.resume.short_loader", "the run stopped after " + std::to_string(consumed) +
                                                   " batches of an epoch that was not finished, and the loader has " +
                                                   std::to_string(had) + " now: resume with the same data and limits");
}

FULGURITE_BULK_BODY void throw_short(long promised, long had) {
  throw Error("fulgurite.data.size", "the loader's size() promised " + std::to_string(promised) +
                                         " batches, it ended after " + std::to_string(had) +
                                         ": make size() and the loader agree");
}

}  // namespace fulgurite::loop
