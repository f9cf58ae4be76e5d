#pragma once
// Where the system has asked for the program's end, and no batch of a hooked pass follows that would notice.

#include <fulgurite/loop/shared_facts.hpp>

namespace fulgurite::loop {

/// Asks the callbacks that have `end_if_asked()`, which throw where the program is to end: between the batches of a
/// pass without hooks, and when a run has ended well.
template <class Pack>
void end_if_asked(Pack& pack) {
  pack.each([](auto& callback) {
    if constexpr (requires { callback.end_if_asked(); }) callback.end_if_asked();
  });
}

/// The same inside of a fit, which several ranks end together: with the next step that they exchange gradients for, or
/// when they tear down. One that ended alone would end the others without the file that they go on from.
template <class R, class Pack>
void end_alone_if_asked([[maybe_unused]] Pack& pack) {
  if constexpr (!shares<R>) end_if_asked(pack);
}

}  // namespace fulgurite::loop
