#pragma once
// What was changed on trial is put back however the trial ends; where even that fails, it is said.

#include <exception>
#include <string>

#include <fulgurite/core/error.hpp>

namespace fulgurite::loop {

/// What rehearsed steps changed could not be undone. A search never treats it as "out of memory", even if memory was
/// the cause.
class NotPutBack : public Error {
 public:
  explicit NotPutBack(char const* why)
      : Error("fulgurite.tuner.put_back",
              std::string("what steps that were tried out have changed could not be put back, so the run is not as it "
                          "was before them: go on from a file of it, or begin anew; ") +
                  why) {}
};

/// Runs `work()`, then `put_back()`, however the work has ended. Errors: those of the work, [fulgurite.tuner.put_back].
template <class Work, class PutBack>
void put_back_after(Work&& work, PutBack&& put_back) {
  auto const all = [&] {
    try {
      put_back();
    } catch (std::exception const& error) { throw NotPutBack(error.what()); } catch (...) {
      throw NotPutBack("what was thrown is no std::exception");
    }
  };
  try {
    work();
  } catch (...) {
    all();
    throw;
  }
  all();
}

}  // namespace fulgurite::loop
