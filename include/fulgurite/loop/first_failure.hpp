#pragma once
// Several files to write, of which one may fail: the others are written all the same, and no failure goes unsaid.

#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/function_ref.hpp>
#include <fulgurite/core/interrupted.hpp>
#include <fulgurite/loop/warnings.hpp>

namespace fulgurite::loop {

/// Keeps the failure that is thrown when all has been tried: the first, but an end that was asked for comes before what
/// fails on the way. The others are warnings: `warn(identifier, sentence)`.
class FirstFailure {
 public:
  explicit FirstFailure(Warn warn) : warn_(warn) {}

  /// Whether it has not failed.
  FULGURITE_COLD bool attempt(FunctionRef<void()> work) {
    try {
      work();
      return true;
    } catch (Interrupted const&) {
      if (first_ && !std::exchange(interrupted_, true)) say_first();
      first_ = std::current_exception();
    } catch (std::exception const& error) {
      if (first_)
        warn("fulgurite.checkpoint.failed_too",
             std::string("after another file, this one could not be written: ") + error.what());
      else first_ = std::current_exception();
    } catch (...) {
      if (!first_) first_ = std::current_exception();
    }
    return false;
  }
  /// Nothing where all went well.
  void rethrow() const {
    if (first_) std::rethrow_exception(first_);
  }

 private:
  FULGURITE_COLD void say_first() const {
    try {
      std::rethrow_exception(first_);
    } catch (std::exception const& error) {
      warn("fulgurite.checkpoint.failed_too",
           std::string("the run was asked to end, and a file could not be written: ") + error.what());
    } catch (...) {}  // it has no words
  }

  void warn(std::string_view identifier, std::string_view sentence) const { warn_(identifier, sentence); }

  Warn warn_;
  std::exception_ptr first_{};
  bool interrupted_ = false;
};

}  // namespace fulgurite::loop
