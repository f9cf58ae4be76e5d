#pragma once
// The one exception of the library: what went wrong, where, and what to do about it.

#include <stdexcept>
#include <string>
#include <string_view>

#include <fulgurite/core/exact_math.hpp>

namespace fulgurite {

/// Thrown for bad input at run time (an option, a file, a missing device), before training starts wherever that can be
/// known. `what()` reads "[identifier] sentence"; the identifier is stable and listed in the tests.
class Error : public std::runtime_error {
 public:
  Error(std::string_view identifier, std::string const& sentence)
      : std::runtime_error(std::string("[").append(identifier).append("] ").append(sentence)),
        length_(identifier.size()) {}

  /// For example "fulgurite.options.max_epochs".
  std::string_view identifier() const noexcept { return std::string_view(what()).substr(1, length_); }

 private:
  std::size_t length_;
};

}  // namespace fulgurite
