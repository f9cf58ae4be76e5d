#pragma once
// Writes the files that a ModelCheckpoint keeps: the best or the latest ones, and the file "last".

#include <cstddef>
#include <exception>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <fulgurite/callback/checkpoint_name.hpp>
#include <fulgurite/callback/watch.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/loop/checkpoint_files.hpp>

namespace fulgurite::checkpointing {

// A file that a ModelCheckpoint saves: what is known before the save, and its result.

/// A file to be written: its name without version and extension, and the values that rank it.
struct SavingFile {
  std::string name = {};
  std::optional<double> score = std::nullopt;  ///< the value of the watched metric, if any
  int epoch = 0;
  long step = 0;
  bool ranked = true;  ///< false: the file is kept in addition to the ranked files, and displaces none

  void state(auto& archive);
};

/// The result of a save. `file` is empty if no file was written.
struct SavedFile {
  std::filesystem::path file = {};
  std::exception_ptr failure = nullptr;  ///< why the first file that failed could not be written
};

/// The path of a file to be written. `is_new`: no such file existed, so if another process creates it meanwhile, that
/// file is left alone.
struct SavingName {
  std::filesystem::path path = {};
  bool is_new = false;

  /// Calls `write`. If another process was faster, calls `rename` and tries the next name: the state in the file must
  /// contain the file's own name.
  void claim(FunctionRef<void()> write, FunctionRef<void()> rename) const;
};

// The k best files by the value of a metric, in the order in which they were written.

/// Keeps the k best files; k = -1 keeps all, 0 none. Among equal values the earlier file wins.
class TopK {
 public:
  TopK(Mode mode, int k) : mode_(mode), k_(k) {}

  std::size_t size() const { return scores_.size(); }
  bool full() const;

  /// True if there is room for this value, or if it is strictly better than the worst that is kept.
  bool admits(double score) const;
  /// The file that is displaced when another one is admitted.
  std::optional<std::filesystem::path> displaced() const;
  /// Adds a file, once: if it was written before, its earlier entry is removed. If there is no room, the worst file is
  /// dropped; several if k has become smaller. Returns the dropped files.
  std::vector<std::filesystem::path> add(std::filesystem::path file, double score, int epoch);
  bool contains(std::filesystem::path const& file) const;
  /// Removes a file from the ranking, if it is there.
  void drop(std::filesystem::path const& file);
  /// Renames each file to `named(file)`.
  void rename(FunctionRef<std::filesystem::path(std::filesystem::path const&)> named);
  void clear();

  /// The best file. Must only be called while some file is kept.
  std::filesystem::path const& best_path() const { return paths_[best_at()]; }
  double best_score() const { return scores_[best_at()]; }
  int best_epoch() const { return epochs_[best_at()]; }
  /// The worst file that is kept; once there are k, a new one must be better.
  std::filesystem::path const& worst_path() const { return paths_[worst_at()]; }
  double worst_score() const { return scores_[worst_at()]; }
  std::vector<std::filesystem::path> const& paths() const { return paths_; }
  std::vector<double> const& scores() const { return scores_; }

  void state(auto& archive);

 private:
  void drop(std::size_t place);
  std::size_t first(Mode mode) const;
  std::size_t best_at() const { return first(mode_); }
  std::size_t worst_at() const;

  Mode mode_;
  int k_;
  std::vector<std::filesystem::path> paths_;
  std::vector<double> scores_;
  std::vector<int> epochs_;
};

// Which of the kept files is the best, and which one the next file displaces.

/// If no metric is watched, the latest file is the best, and it has no score.
struct Ranking {
  TopK top;
  std::filesystem::path best = {};
  std::optional<double> best_score = std::nullopt;
  int best_epoch = 0;
  /// Displaced files that are not removed yet. The state in the file that displaces them lists them here: if a run ends
  /// between the two, the resumed run removes them.
  std::vector<std::filesystem::path> outdated = {};

  /// The file that this one displaces, whose name it may take; nullopt if it displaces none.
  std::optional<std::filesystem::path> displaced_by(SavingFile const& now, int save_top_k) const;

  void add(std::filesystem::path const& file, SavingFile const& now, int save_top_k);

  /// The file was written, perhaps again, and is not outdated.
  void keep(std::filesystem::path const& file) { std::erase(outdated, file); }

  /// Chooses the best file among the remaining ones.
  void take_best();
};

/// Writes the files that are kept. A file that cannot be written leaves no entry here, and the file that it should have
/// displaced is kept. But the state in a file must contain the name of that file and of those that it displaces; so
/// names are entered before the file is written, and removed again if that fails.
class KeptFiles {
 public:
  explicit KeptFiles(ModelCheckpointOptions const& how);

  // The names of the files that are kept, and the values that rank them. These files exist.

  struct Last {
    std::filesystem::path file = {};
    long step = 0;
    /// The file that `file` should link to or be a copy of, until that is done. The state in the pending file names it:
    /// if a run ends between the two, the resumed run makes "last".
    std::filesystem::path pending = {};
  };
  Ranking const& ranking() const { return ranking_; }
  Last const& last() const { return last_; }

  /// Registers the kept files, so that no other callback removes them. Called when a fit starts, since a state may have
  /// been loaded.
  void hold(HeldFiles& held, HeldFiles::Holder holder) const;

  /// The files that are named here but no longer exist on disk.
  std::vector<std::filesystem::path> gone() const;
  /// Removes the files from the ranking, and chooses the best file among the remaining ones.
  void forget(std::vector<std::filesystem::path> const& files);

  /// Changes the spelling of the folder, and of the files in it. Does nothing if `before` is empty.
  void respell(std::filesystem::path const& before, std::filesystem::path const& now);

  /// Leaves the folder, and all files in it as they are. The file with the best value is named until the first one in
  /// the new folder; without a metric none is, since the next file displaces the one that is named.
  void leave();

  void state(auto& archive);

  // Saving.

  /// Called with the name that a file is going to have, whenever it is entered here, and at the end with that of the
  /// file that was written. Empty if there is none.
  using Named = std::function<void(std::filesystem::path const& file)>;

  /// Writes a file, if the options keep any, and "last" with it.
  SavedFile save(CheckpointFiles& files, std::filesystem::path const& folder, ModelCheckpointOptions const& how,
                 SavingFile const& now, Named named);

  /// Like save, but another thread writes; `then(files, saved)` is called on this thread. Until then the new names are
  /// entered although their files do not exist yet. If the file cannot be written, no copy is named "last".
  void save_later(CheckpointFiles& files, std::filesystem::path const& folder, ModelCheckpointOptions const& how,
                  SavingFile const& now, Named named, std::function<void(CheckpointFiles&, SavedFile const&)> then);

  /// Writes only "last".
  SavedFile save_last(CheckpointFiles& files, std::filesystem::path const& folder, ModelCheckpointOptions how,
                      long step, Named named);

  /// Removes the displaced files. A file is kept, and tried again later, if this program has named it to resume from,
  /// if the link "last" still leads to it, or if the disk refuses to remove it.
  void sweep(CheckpointFiles& files, std::filesystem::path const& folder);
  /// True if a file was written but the work after it is not done: "last" is not made, or a displaced file is not
  /// removed.
  bool is_unfinished() const;
  /// Does the work after the newest file, if an earlier run ended before that was done.
  void complete(CheckpointFiles& files, std::filesystem::path const& folder, ModelCheckpointOptions const& how);

  /// True if "last" is a file of its own: if no other file is kept, there is none to link to.
  static bool copies_last(ModelCheckpointOptions const& how);

 private:
  /// A save whose names have been entered.
  struct Saving {
    std::filesystem::path folder;
    ModelCheckpointOptions how;
    SavingFile now;
    Ranking ranking_before;
    Last last_before;
    Named named;
    SavingName file = {}, last = {};

    bool keeps() const;
    bool has_last() const;
  };

  Saving begin(CheckpointFiles& files, std::filesystem::path const& folder, ModelCheckpointOptions const& how,
               SavingFile const& now, Named named);
  void name_last(CheckpointFiles& files, Saving& saving);
  void name_both(CheckpointFiles& files, Saving& saving);

  SavedFile finish(CheckpointFiles& files, Saving& saving);

  SavingName place(CheckpointFiles& files, std::filesystem::path const& folder, ModelCheckpointOptions const& how,
                   SavingFile const& now);

  /// Finds a name that may be written to. `ours` may be overwritten, unless others hold it as well. A version is
  /// appended if another such file exists, or if the name equals `beside`, which will be written, too.
  SavingName fresh(CheckpointFiles& files, std::filesystem::path const& folder, ModelCheckpointOptions const& how,
                   std::string const& name, std::filesystem::path const& ours,
                   std::filesystem::path const& beside = {}) const;

  Ranking ranking_;
  Last last_{};
};

}  // namespace fulgurite::checkpointing

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/callback/kept_files.ipp>
#endif
