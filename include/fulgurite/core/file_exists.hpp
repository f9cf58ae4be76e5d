#pragma once
// A file that was to be new is there already.

#include <filesystem>

#include <fulgurite/core/error.hpp>

namespace fulgurite {

/// Thrown inside a NewNamesOnly where a file of that name exists.
class FileExists : public Error {
 public:
  explicit FileExists(std::filesystem::path const& file)
      : Error("fulgurite.file.write",
              "cannot write " + file.string() + ": another process has made a file of that name; it stays as it is") {}
};

}  // namespace fulgurite
