#pragma once
// Writing the files that a ModelCheckpoint keeps: the best or the latest ones, and the one called last.

#include <algorithm>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fulgurite/callback/checkpoint_name.hpp>
#include <fulgurite/callback/watch.hpp>
#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/core/cold.hpp>
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

// The k best files by the value of a metric, in the order in which they were written.

/// Keeps the k best files; k = -1 keeps all, 0 none. Among equal values the earlier file wins.
class TopK {
 public:
  TopK(Mode mode, int k) : mode_(mode), k_(k) {}

  std::size_t size() const { return scores_.size(); }
  bool full() const { return k_ >= 0 && scores_.size() >= static_cast<std::size_t>(k_); }

  /// Whether a value is admitted: there is room, or it is strictly better than the worst that is kept.
  bool admits(double score) const {
    if (k_ == 0) return false;
    return !full() || watch::better(mode_, score, scores_[worst_at()]);
  }
  /// The file that gives way when another one is admitted.
  std::optional<std::filesystem::path> displaced() const {
    return full() && size() != 0 ? std::optional(paths_[worst_at()]) : std::nullopt;
  }
  /// Adds a file, which has one place only: where it is written once more it loses the earlier one. Where there is no
  /// room, the worst file is dropped: several where k has become smaller. Returns those that were dropped.
  FULGURITE_COLD std::vector<std::filesystem::path> add(std::filesystem::path file, double score, int epoch) {
    drop(file);
    std::vector<std::filesystem::path> dropped;
    while (full() && size() != 0) {
      dropped.push_back(worst_path());
      drop(worst_at());
    }
    paths_.push_back(std::move(file));
    scores_.push_back(score);
    epochs_.push_back(epoch);
    return dropped;
  }
  bool contains(std::filesystem::path const& file) const {
    return std::find(paths_.begin(), paths_.end(), file) != paths_.end();
  }
  /// Forgets a file, if it is there.
  void drop(std::filesystem::path const& file) {
    if (auto const found = std::find(paths_.begin(), paths_.end(), file); found != paths_.end())
      drop(static_cast<std::size_t>(found - paths_.begin()));
  }
  /// Each file gets the name that `named(file)` says.
  void rename(FunctionRef<std::filesystem::path(std::filesystem::path const&)> named) {
    for (auto& path : paths_) path = named(path);
  }
  void clear() {
    paths_.clear();
    scores_.clear();
    epochs_.clear();
  }

  /// The best file; only to be asked for while some file is kept.
  std::filesystem::path const& best_path() const { return paths_[best_at()]; }
  double best_score() const { return scores_[best_at()]; }
  int best_epoch() const { return epochs_[best_at()]; }
  /// The worst file that is kept; once there are k, a new one must be better.
  std::filesystem::path const& worst_path() const { return paths_[worst_at()]; }
  double worst_score() const { return scores_[worst_at()]; }
  std::vector<std::filesystem::path> const& paths() const { return paths_; }
  std::vector<double> const& scores() const { return scores_; }

  void state(auto& archive) { archive("paths", paths_)("scores", scores_)("epochs", epochs_); }

 private:
  FULGURITE_COLD void drop(std::size_t place) {
    auto const at = static_cast<std::ptrdiff_t>(place);
    paths_.erase(paths_.begin() + at);
    scores_.erase(scores_.begin() + at);
    epochs_.erase(epochs_.begin() + at);
  }
  FULGURITE_COLD std::size_t first(Mode mode) const {
    std::size_t at = 0;
    for (std::size_t i = 1; i < scores_.size(); ++i)
      if (watch::better(mode, scores_[i], scores_[at])) at = i;
    return at;
  }
  std::size_t best_at() const { return first(mode_); }
  std::size_t worst_at() const { return first(mode_ == Mode::min ? Mode::max : Mode::min); }

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
  std::optional<std::filesystem::path> displaced_by(SavingFile const& now, int save_top_k) const {
    if (now.score) return top.displaced();
    if (save_top_k == 1 && !best.empty()) return best;
    return std::nullopt;
  }

  void add(std::filesystem::path const& file, SavingFile const& now, int save_top_k) {
    if (now.score) {
      for (auto& dropped : top.add(file, *now.score, now.epoch)) outdated.push_back(std::move(dropped));
      take_best();
    } else {
      if (auto const before = displaced_by(now, save_top_k)) outdated.push_back(*before);
      best = file;
      best_epoch = now.epoch;
    }
    keep(file);
  }

  /// The file is written, perhaps once more, and stays.
  void keep(std::filesystem::path const& file) { std::erase(outdated, file); }

  /// The best file is the best one of those that are left.
  void take_best() {
    bool const any = top.size() != 0;
    best = any ? top.best_path() : std::filesystem::path();
    best_score = any ? std::optional(top.best_score()) : std::nullopt;
    best_epoch = any ? top.best_epoch() : 0;
  }
};

// The names of the files that a ModelCheckpoint keeps, the best or the latest ones and the one called last. They are
// names of files that exist.

/// The names, and the values that rank them.
class KeptNames {
 public:
  explicit KeptNames(ModelCheckpointOptions const& how) : ranking_{TopK(how.mode, how.save_top_k)} {}

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
  FULGURITE_COLD void hold(HeldFiles& held, HeldFiles::Holder holder) const {
    for (auto const& file : ranking_.top.paths()) held.hold(file, holder);
    for (auto const& file : {ranking_.best, last_.file})
      if (!file.empty()) held.hold(file, holder);
  }

  /// Those that are named here and are no longer on the disk.
  std::vector<std::filesystem::path> gone() const {
    std::vector<std::filesystem::path> files;
    auto const is_there = [](std::filesystem::path const& file) {
      std::error_code unknown;
      return std::filesystem::status(file, unknown).type() != std::filesystem::file_type::not_found;
    };
    auto const look = [&](std::filesystem::path const& file) {
      if (!file.empty() && !is_there(file) && std::find(files.begin(), files.end(), file) == files.end())
        files.push_back(file);
    };
    for (auto const& file : ranking_.top.paths()) look(file);
    look(ranking_.best);
    if (last_.pending.empty() || !is_there(last_.pending)) look(last_.file);  // else it is yet to be made
    return files;
  }
  /// They leave the ranking; the best file is the best one of those that are left.
  void forget(std::vector<std::filesystem::path> const& files) {
    auto const is_one = [&](auto const& file) { return std::find(files.begin(), files.end(), file) != files.end(); };
    for (auto const& file : files) ranking_.top.drop(file);
    if (is_one(last_.file)) last_ = {.step = last_.step};
    if (is_one(ranking_.best)) ranking_.take_best();
  }

  /// The folder is spelt in another way from now on, and so are the files in it. Nothing where `before` is empty.
  FULGURITE_COLD void respell(std::filesystem::path const& before, std::filesystem::path const& now) {
    if (before.empty()) return;
    auto const respelt = [&](std::filesystem::path const& file) {
      auto const inside = file.lexically_relative(before);
      return inside.empty() || *inside.begin() == ".." ? file : now / inside;
    };
    ranking_.top.rename(respelt);
    ranking_.best = respelt(ranking_.best);
    last_.file = respelt(last_.file);
    last_.pending = respelt(last_.pending);
    for (auto& file : ranking_.outdated) file = respelt(file);
  }

  /// Leaves the folder: the path of the best file is remembered, and all files stay as they are.
  void leave() {
    ranking_.top.clear();
    ranking_.outdated.clear();
    last_ = {.step = last_.step};
  }

  void state(auto& archive) {
    archive("best_model_path", ranking_.best)("best_model_score", ranking_.best_score)("best_epoch",
                                                                                       ranking_.best_epoch);
    archive("last_model_path", last_.file)("last_written_step", last_.step)("last_pending", last_.pending);
    archive("outdated", ranking_.outdated);
    archive.child("best_k_models", ranking_.top);
  }

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
                 SavingFile const& now) {
    auto saving = begin(files, folder, how, now);
    return finish(files, saving);
  }

  /// The same, written by another thread; `then(files, saved)` is called on this one. Until then the new names stand
  /// here although their files are not there yet. Where the file cannot be written, no copy is called last.
  template <class Then>
  void save_later(CheckpointFiles& files, std::filesystem::path const& folder, ModelCheckpointOptions const& how,
                  SavingFile const& now, Then then) {
    auto saving = begin(files, folder, how, now);
    std::vector<CheckpointFiles::Planned> planned;
    if (saving.keeps()) planned.push_back({saving.file.path, saving.file.is_new});
    if (saving.has_last() && copies_last(how)) planned.push_back({saving.last.path, saving.last.is_new});
    try {
      files.write_later(planned, how.save_weights_only,
                        [this, saving, then](CheckpointFiles& done) mutable { then(done, finish(done, saving)); });
    } catch (...) {
      ranking_ = saving.ranking_before;
      last_ = saving.last_before;
      then(files, SavedFile{.failure = std::current_exception()});
    }
  }

  /// Writes last alone.
  SavedFile save_last(CheckpointFiles& files, std::filesystem::path const& folder, ModelCheckpointOptions how,
                      long step) {
    how.save_top_k = 0;
    return save(files, folder, how, {.name = {}, .step = step});
  }

  /// Removes the files that have given way. What stays is tried again later: a file that this program has named to
  /// resume from, one that the link called last still leads to, or one that the disk refuses to remove.
  FULGURITE_COLD void sweep(CheckpointFiles& files, std::filesystem::path const& folder) {
    std::erase_if(ranking_.outdated, [&](std::filesystem::path const& file) {
      std::error_code unknown;
      if (std::filesystem::is_symlink(last_.file, unknown) && std::filesystem::equivalent(last_.file, file, unknown))
        return false;
      checkpointing::make_room(files, folder, file);
      return !files.writes() || files.of_others(file) ||
             std::filesystem::symlink_status(file, unknown).type() == std::filesystem::file_type::not_found;
    });
  }
  /// A file was written, and what follows it is not done: last is not made, or a file that gave way is not removed.
  bool is_unfinished() const { return !last_.pending.empty() || !ranking_.outdated.empty(); }
  /// Does what follows the newest file, where a run before this one ended behind it.
  FULGURITE_COLD void complete(CheckpointFiles& files, std::filesystem::path const& folder,
                               ModelCheckpointOptions const& how) {
    bool const is_due = how.save_last.kind != SaveLast::no && checkpointing::is_behind(last_.file, last_.pending);
    if (files.of_first_rank(is_due)) {
      if (copies_last(how)) files.write(last_.file, how.save_weights_only);
      else link_last(files, last_.file, last_.pending);
    }
    last_.pending.clear();
    sweep(files, folder);
  }

  /// Whether last is a file of its own: where no other file is kept, there is none to link to.
  static bool copies_last(ModelCheckpointOptions const& how) {
    return how.save_last.kind == SaveLast::copy || (how.save_last.kind == SaveLast::link && how.save_top_k == 0);
  }

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

    bool keeps() const { return how.save_top_k != 0 || !now.ranked; }
    bool has_last() const { return how.save_last.kind != SaveLast::no; }
  };

  Saving begin(CheckpointFiles& files, std::filesystem::path const& folder, ModelCheckpointOptions const& how,
               SavingFile const& now) {
    sweep(files, folder);  // what the process before this one has left to remove
    Saving saving{folder, how, now, ranking_, last_};
    name_both(files, saving);
    return saving;
  }
  FULGURITE_COLD void name_last(CheckpointFiles& files, Saving& saving) {
    auto const before = saving.last.path;
    auto const& [folder, how, now, ranking_before, last_before, file, last] = saving;
    saving.last = saving.has_last() ? fresh(files, folder, how, "last", last_before.file, file.path) : Name{};
    if (saving.has_last()) {
      last_ = {last.path, now.step, file.path};
      ranking_.keep(last.path);
    }
    files.renamed(before, last.path);
  }
  FULGURITE_COLD void name_both(CheckpointFiles& files, Saving& saving) {
    auto const before = saving.file.path;
    ranking_ = saving.ranking_before;
    if (saving.keeps()) saving.file = place(files, saving.folder, saving.how, saving.now);
    files.renamed(before, saving.file.path);
    name_last(files, saving);
  }

  static void link_last(CheckpointFiles& files, std::filesystem::path const& last, std::filesystem::path const& file) {
    files.make(last, [&](auto const& link) { file::link_to(file, link); });
  }

  FULGURITE_COLD SavedFile finish(CheckpointFiles& files, Saving& saving) {
    auto const& how = saving.how;
    SavedFile saved;
    auto const could = [&saved](auto&& write) {
      try {
        write();
        return true;
      } catch (...) {
        if (!saved.failure) saved.failure = std::current_exception();
        return false;
      }
    };
    auto const write_file = [&] { files.write(saving.file.path, how.save_weights_only); };
    bool const written =
        saving.keeps() && could([&] { saving.file.claim(write_file, [&] { name_both(files, saving); }); });
    if (written) saved.file = saving.file.path;
    else {
      ranking_ = saving.ranking_before;
      last_.pending.clear();
    }
    bool there = true;
    if (saving.has_last()) {
      auto const rename_last = [&] {
        name_last(files, saving);
        if (written) write_file();  // it says what last is called
      };
      bool const copies = copies_last(how);
      auto const make = [&] {
        if (copies) files.write(saving.last.path, how.save_weights_only);
        else link_last(files, saving.last.path, saving.file.path);
      };
      there = (copies || written) && could([&] { saving.last.claim(make, rename_last); });
      if (there) last_.pending.clear();
      else last_ = saving.last_before;
      if (there && !written) saved.file = saving.last.path;
    }
    // A link that could not be made again still leads to the file that would give way.
    if (written && (there || copies_last(how))) sweep(files, saving.folder);
    return saved;
  }

  FULGURITE_COLD Name place(CheckpointFiles& files, std::filesystem::path const& folder,
                            ModelCheckpointOptions const& how, SavingFile const& now) {
    if (!now.ranked) return fresh(files, folder, how, now.name, {});
    auto const ours = ranking_.displaced_by(now, how.save_top_k).value_or(std::filesystem::path{});
    auto name = fresh(files, folder, how, now.name, ours);
    ranking_.add(name.path, now, how.save_top_k);
    return name;
  }

  /// Finds a name that may be written to. `ours` may be overwritten, unless others count on it as well. A version is
  /// appended where another such file exists, or where it would be `beside`, which is to be written, too.
  FULGURITE_COLD Name fresh(CheckpointFiles& files, std::filesystem::path const& folder,
                            ModelCheckpointOptions const& how, std::string const& name,
                            std::filesystem::path const& ours, std::filesystem::path const& beside = {}) const {
    if (!how.enable_version_counter) return {folder / (name + how.extension), false};
    auto const overwritten = files.of_others(ours) || ours == beside ? std::filesystem::path{} : ours;
    auto path = checkpointing::unused_name(folder, name, how.extension, overwritten, [&](auto const& other) {
      return other == beside || ranking_.top.contains(other) || files.taken(other);
    });
    bool const is_new = path != overwritten;
    return {std::move(path), is_new};
  }
};

}  // namespace fulgurite
