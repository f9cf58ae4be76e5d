#pragma once
// Where the system has asked for the program's end, and no batch of a hooked pass follows that would notice.

namespace fulgurite::loop {

/// Asks the callbacks that have `end_if_asked()`, which throw where the program is to end: between the batches of a
/// pass without hooks, and when a run has ended well.
template <class Pack>
void end_if_asked(Pack& pack) {
  pack.each([](auto& callback) {
    if constexpr (requires { callback.end_if_asked(); }) callback.end_if_asked();
  });
}

}  // namespace fulgurite::loop
