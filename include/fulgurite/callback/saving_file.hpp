#pragma once
// A file that a ModelCheckpoint saves: what is known before, and what has come of it.

#include <exception>
#include <filesystem>
#include <optional>
#include <string>

#include <fulgurite/checkpoint/durable_file.hpp>

namespace fulgurite {

/// A file that is to be written: its name without version and extension, and the values that rank it.
struct SavingFile {
  std::string name = {};
  std::optional<double> score = std::nullopt;  ///< of the metric, where one is watched
  int epoch = 0;
  long step = 0;
  bool ranked = true;  ///< false: it is kept beside the ranked ones, and none gives way to it

  void state(auto& archive) { archive("name", name)("score", score)("epoch", epoch)("step", step)("ranked", ranked); }
};

/// The result of a save. `file` is empty where none was written.
struct SavedFile {
  std::filesystem::path file = {};
  std::exception_ptr failure = nullptr;  ///< why the first file that failed could not be written
};

namespace checkpointing {

/// The path of a file that is to be written. `is_new` says that no such file existed; one that another process makes
/// meanwhile is then left to it.
struct SavingName {
  std::filesystem::path path = {};
  bool is_new = false;

  /// Writes, and where another process was faster takes the next name: the state in the file shall name that very file.
  void claim(auto&& write, auto&& rename) const {
    while (true) {
      try {
        NewNamesOnly const only(is_new);
        write();
        return;
      } catch (FileExists const&) {}
      rename();
    }
  }
};

}  // namespace checkpointing
}  // namespace fulgurite
