#pragma once
// Writing the files that a ModelCheckpoint keeps: the best or the latest ones, and the one called last.

#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fulgurite/callback/checkpoint_folder.hpp>
#include <fulgurite/callback/kept_names.hpp>
#include <fulgurite/callback/model_checkpoint_options.hpp>
#include <fulgurite/callback/saving_file.hpp>
#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/checkpoint/link_file.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/loop/checkpoint_files.hpp>

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
