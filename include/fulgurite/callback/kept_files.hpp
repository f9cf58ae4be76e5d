#pragma once
// Writing the files that a ModelCheckpoint keeps: the best or the latest ones, and the one called last.

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
#include <fulgurite/core/function_ref.hpp>
#include <fulgurite/loop/checkpoint_files.hpp>

namespace fulgurite {

// A file that a ModelCheckpoint saves: what is known before, and what has come of it.

/// A file that is to be written: its name without version and extension, and the values that rank it.
struct SavingFile {
  std::string name = {};
  std::optional<double> score = std::nullopt;  ///< of the metric, where one is watched
  int epoch = 0;
  long step = 0;
  bool ranked = true;  ///< false: it is kept beside the ranked ones, and none gives way to it

  void state(auto& archive);
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
  void claim(FunctionRef<void()> write, FunctionRef<void()> rename) const;
};

}  // namespace checkpointing

// The k best files by the value of a metric, in the order in which they were written.

/// Keeps the k best files; k = -1 keeps all, 0 none. Among equal values the earlier file wins.
class TopK {
 public:
  TopK(Mode mode, int k) : mode_(mode), k_(k) {}

  std::size_t size() const { return scores_.size(); }
  bool full() const;

  /// Whether a value is admitted: there is room, or it is strictly better than the worst that is kept.
  bool admits(double score) const;
  /// The file that gives way when another one is admitted.
  std::optional<std::filesystem::path> displaced() const;
  /// Adds a file, which has one place only: where it is written once more it loses the earlier one. Where there is no
  /// room, the worst file is dropped: several where k has become smaller. Returns those that were dropped.
  std::vector<std::filesystem::path> add(std::filesystem::path file, double score, int epoch);
  bool contains(std::filesystem::path const& file) const;
  /// Forgets a file, if it is there.
  void drop(std::filesystem::path const& file);
  /// Each file gets the name that `named(file)` says.
  void rename(FunctionRef<std::filesystem::path(std::filesystem::path const&)> named);
  void clear();

  /// The best file; only to be asked for while some file is kept.
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

}  // namespace fulgurite

namespace fulgurite::checkpointing {

// Which of the files that a ModelCheckpoint keeps is the best, and which gives way to the next one.

/// Where no metric is watched the latest file is the best, and it has no score.
struct Ranking {
  TopK top;
  std::filesystem::path best = {};
  std::optional<double> best_score = std::nullopt;
  int best_epoch = 0;
  /// Files that gave way to others, and are yet to be removed. The file that displaces one names it here: a run that
  /// ends between the two leaves the removal to the run that goes on.
  std::vector<std::filesystem::path> outdated = {};

  /// The file that gives way to this one, whose name it may have; nullopt where none does.
  std::optional<std::filesystem::path> displaced_by(SavingFile const& now, int save_top_k) const;

  void add(std::filesystem::path const& file, SavingFile const& now, int save_top_k);

  /// The file is written, perhaps once more, and stays.
  void keep(std::filesystem::path const& file);

  /// The best file is the best one of those that are left.
  void take_best();
};

// The names of the files that a ModelCheckpoint keeps, the best or the latest ones and the one called last. They are
// names of files that exist.

/// The names, and the values that rank them.
class KeptNames {
 public:
  explicit KeptNames(ModelCheckpointOptions const& how);

  struct Last {
    std::filesystem::path file = {};
    long step = 0;
    /// The file that `file` is to lead to, or to be a copy of, until that is done. The state in that file names it: a
    /// run that ends between the two leaves last to the run that goes on.
    std::filesystem::path pending = {};
  };
  Ranking const& ranking() const { return ranking_; }
  Last const& last() const { return last_; }

  /// Registers the files that are kept, so that no other callback removes them. It is called when a fit starts, since a
  /// state may have been loaded.
  void hold(HeldFiles& held, HeldFiles::Holder holder) const;

  /// Those that are named here and are no longer on the disk.
  std::vector<std::filesystem::path> gone() const;
  /// They leave the ranking; the best file is the best one of those that are left.
  void forget(std::vector<std::filesystem::path> const& files);

  /// The folder is spelt in another way from now on, and so are the files in it. Nothing where `before` is empty.
  void respell(std::filesystem::path const& before, std::filesystem::path const& now);

  /// Leaves the folder: the path of the best file is remembered, and all files stay as they are.
  void leave();

  void state(auto& archive);

 protected:
  Ranking ranking_;
  Last last_{};
};

}  // namespace fulgurite::checkpointing

namespace fulgurite {

/// Writes the files that are kept. A file that cannot be written leaves no trace here, and the file that it was to
/// displace stays. But the state in a file shall name that very file, and those that give way to it; so names are
/// entered before it is written, and taken back where that fails.
class KeptFiles : public checkpointing::KeptNames {
 public:
  using KeptNames::KeptNames;

  /// Writes a file, where the options keep any, and last beside it.
  SavedFile save(CheckpointFiles& files, std::filesystem::path const& folder, ModelCheckpointOptions const& how,
                 SavingFile const& now);

  /// The same, written by another thread; `then(files, saved)` is called on this one. Until then the new names stand
  /// here although their files are not there yet. Where the file cannot be written, no copy is called last.
  void save_later(CheckpointFiles& files, std::filesystem::path const& folder, ModelCheckpointOptions const& how,
                  SavingFile const& now, std::function<void(CheckpointFiles&, SavedFile const&)> then);

  /// Writes last alone.
  SavedFile save_last(CheckpointFiles& files, std::filesystem::path const& folder, ModelCheckpointOptions how,
                      long step);

  /// Removes the files that have given way. What stays is tried again later: a file that this program has named to
  /// resume from, one that the link called last still leads to, or one that the disk refuses to remove.
  void sweep(CheckpointFiles& files, std::filesystem::path const& folder);
  /// A file was written, and what follows it is not done: last is not made, or a file that gave way is not removed.
  bool is_unfinished() const;
  /// Does what follows the newest file, where a run before this one ended behind it.
  void complete(CheckpointFiles& files, std::filesystem::path const& folder, ModelCheckpointOptions const& how);

  /// Whether last is a file of its own: where no other file is kept, there is none to link to.
  static bool copies_last(ModelCheckpointOptions const& how);

 private:
  using Name = checkpointing::SavingName;
  using Ranking = checkpointing::Ranking;

  /// A save whose names have been entered.
  struct Saving {
    std::filesystem::path folder;
    ModelCheckpointOptions how;
    SavingFile now;
    Ranking ranking_before;
    Last last_before;
    Name file = {}, last = {};

    bool keeps() const;
    bool has_last() const;
  };

  Saving begin(CheckpointFiles& files, std::filesystem::path const& folder, ModelCheckpointOptions const& how,
               SavingFile const& now);
  void name_last(CheckpointFiles& files, Saving& saving);
  void name_both(CheckpointFiles& files, Saving& saving);

  static void link_last(CheckpointFiles& files, std::filesystem::path const& last, std::filesystem::path const& file);

  SavedFile finish(CheckpointFiles& files, Saving& saving);

  Name place(CheckpointFiles& files, std::filesystem::path const& folder, ModelCheckpointOptions const& how,
             SavingFile const& now);

  /// Finds a name that may be written to. `ours` may be overwritten, unless others count on it as well. A version is
  /// appended where another such file exists, or where it would be `beside`, which is to be written, too.
  Name fresh(CheckpointFiles& files, std::filesystem::path const& folder, ModelCheckpointOptions const& how,
             std::string const& name, std::filesystem::path const& ours,
             std::filesystem::path const& beside = {}) const;
};

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/callback/kept_files.ipp>
#endif
