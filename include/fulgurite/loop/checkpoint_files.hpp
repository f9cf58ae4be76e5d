#pragma once
// The checkpoint files of a run: who counts on which, and what a request may do with them when its time has come.

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/file_exists.hpp>
#include <fulgurite/core/function_ref.hpp>

namespace fulgurite {

/// Who counts on which file: a file goes only when the last of its holders has given it up.
class HeldFiles {
 public:
  /// A callback's address; nullptr is the run itself, for files that were asked for by name.
  using Holder = void const*;

  void hold(std::filesystem::path const& file, Holder holder) { holders_[key(file)].insert(holder); }
  void give_up(std::filesystem::path const& file, Holder holder) {
    auto const found = holders_.find(key(file));
    if (found == holders_.end()) return;
    found->second.erase(holder);
    if (found->second.empty()) holders_.erase(found);
  }
  /// Somebody else counts on the file.
  bool by_others(std::filesystem::path const& file, Holder holder) const {
    auto const found = holders_.find(key(file));
    return found != holders_.end() && found->second.size() > found->second.count(holder);
  }

  /// A fit of this program resumes from this file, which it has named: nobody removes it, since the same program may be
  /// started again and would name it again. It may be overwritten.
  FULGURITE_COLD void begins_with(std::filesystem::path const& file) { named_.insert(key(file)); }
  bool is_begun_with(std::filesystem::path const& file) const {
    return !named_.empty() && named_.count(key(file)) != 0;
  }

  /// One file has one key, whatever its folder is called by. A link is itself, not what it leads to.
  static std::filesystem::path key(std::filesystem::path const& file) {
    std::error_code error;
    auto const folder = std::filesystem::absolute(file, error).parent_path();
    auto const whole = std::filesystem::weakly_canonical(folder, error);
    return (error ? folder.lexically_normal() : whole) / file.filename();
  }

 private:
  std::map<std::filesystem::path, std::set<Holder>> holders_{};
  std::set<std::filesystem::path> named_{};
};

class CheckpointFiles;

/// What a callback asks the trainer to do at the next safe point: to write a file of that name, or what a function does
/// then, which names its files only when they are written.
struct CheckpointRequest {
  std::filesystem::path path = {};                 ///< empty where `act` names the files
  std::function<void(CheckpointFiles&)> act = {};  ///< in place of writing `path`
  HeldFiles::Holder holder = nullptr;              ///< who counts on what is written

  CheckpointRequest(std::filesystem::path file) : path(std::move(file)) {}
  CheckpointRequest(char const* file) : path(file) {}
  CheckpointRequest(std::string const& file) : path(file) {}
  CheckpointRequest(HeldFiles::Holder who, std::function<void(CheckpointFiles&)> what)
      : act(std::move(what)), holder(who) {}
};

/// What a request does with files at its safe point. Other ranks than 0 do the same, find the names that rank 0 finds,
/// and write or remove nothing.
class CheckpointFiles {
 public:
  using Awaited = FunctionRef<bool(std::filesystem::path const& file)>;
  using Write = FunctionRef<void(std::filesystem::path const& file, bool weights_only)>;
  /// A file that is to be written; `is_new`: only where no such file exists by then.
  struct Planned {
    std::filesystem::path file;
    bool is_new;
  };
  using Then = std::function<void(CheckpointFiles&)>;
  using WriteLater = FunctionRef<void(std::span<Planned const>, bool weights_only, Then)>;
  using Rename = FunctionRef<void(std::filesystem::path const& from, std::filesystem::path const& to)>;
  using Remove = FunctionRef<bool(std::filesystem::path const& file)>;
  using FirstSays = FunctionRef<bool(bool)>;

  /// `awaited`: whether a request that is still to come names a file. What the arguments refer to has to outlive this
  /// object.
  CheckpointFiles(HeldFiles& held, HeldFiles::Holder holder, Awaited awaited, bool writes, Write write)
      : held_(held), holder_(holder), awaited_(awaited), writes_(writes), write_(write) {}

  bool writes() const { return writes_; }
  /// After a batch: whether a validation comes next, which scores the weights that a file of now holds. nullopt: that
  /// is not known, as where the batch has failed.
  std::optional<bool> validation_follows() const { return validation_follows_; }
  void know_of_validation(std::optional<bool> follows) { validation_follows_ = follows; }
  /// Another participant counts on the file, or a request that is still to come names it.
  bool of_others(std::filesystem::path const& file) const { return held_.by_others(file, holder_) || awaited_(file); }
  /// The name is not free: it is that of others, or such a file exists.
  bool taken(std::filesystem::path const& file) const {
    std::error_code ignored;
    using enum std::filesystem::file_type;
    auto const there = std::filesystem::symlink_status(file, ignored).type();
    bool const exists = there != none && there != not_found && there != unknown;
    return of_first_rank(exists) || of_others(file);
  }
  /// The weights as they are now, and the state of the run; `weights_only`: of that state only what the model saves
  /// and where in the run it was.
  void write(std::filesystem::path const& file, bool weights_only = false) {
    if (writes_ || first_says_) write_(file, weights_only);
    held_.hold(file, holder_);
  }
  /// Several ranks: each does the same here, and takes part where a file is written. `first_says(mine)` is rank 0's
  /// word.
  void are_shared(FirstSays first_says) { first_says_ = first_says; }
  /// What rank 0 says.
  bool of_first_rank(bool mine) const { return first_says_ ? first_says_(mine) : mine; }
  /// Whether files can be written while the run continues.
  bool later() const { return writes_ && write_later_; }
  void can_write_later(WriteLater how) { write_later_ = how; }
  /// The files get what the run is now, and `then(files)` is called on this thread when they are there, or could not be
  /// written: its `files.write` of one of them says so as if it had happened then.
  void write_later(std::span<Planned const> planned, bool weights_only, Then then) {
    write_later_(planned, weights_only, std::move(then));
  }
  /// A file got another name, after what is written was copied.
  void renamed(std::filesystem::path const& from, std::filesystem::path const& to) const {
    if (rename_ && from != to) rename_(from, to);
  }
  void can_rename(Rename how) { rename_ = how; }
  /// A file that `make(file)` makes, as a link to another one. All ranks know whether such a file exists.
  template <class Make>
  void make(std::filesystem::path const& file, Make&& make) {
    bool exists = false;
    try {
      if (writes_) make(file);
    } catch (FileExists const&) { exists = true; }
    if (of_first_rank(exists)) throw FileExists(file);
    held_.hold(file, holder_);
  }
  /// The holder of this request needs the file no more; it is removed unless somebody else does, or this program has
  /// named it to resume from. Returns whether it was removed.
  bool give_up(std::filesystem::path const& file) {
    held_.give_up(file, holder_);
    std::error_code ignored;  // a file that somebody else removed is gone, as wanted
    if (!writes_ || of_others(file) || held_.is_begun_with(file)) return false;
    return remove_ ? remove_(file) : std::filesystem::remove(file, ignored);
  }
  void can_remove(Remove how) { remove_ = how; }

 private:
  HeldFiles& held_;
  HeldFiles::Holder holder_;
  Awaited awaited_;
  bool writes_;
  std::optional<bool> validation_follows_ = std::nullopt;
  Write write_;
  FirstSays first_says_{};
  WriteLater write_later_{};
  Rename rename_{};
  Remove remove_{};
};

}  // namespace fulgurite
