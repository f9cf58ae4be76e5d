#pragma once
// The bodies of callback/kept_files.hpp.

#include <algorithm>
#include <system_error>
#include <utility>

#include <fulgurite/callback/kept_files.hpp>
#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/core/archive.hpp>

namespace fulgurite::checkpointing {

FULGURITE_BODY void SavingName::claim(FunctionRef<void()> write, FunctionRef<void()> rename) const {
  while (true) {
    try {
      NewNamesOnly const only(is_new);
      write();
      return;
    } catch (FileExists const&) {}
    rename();
  }
}

FULGURITE_BODY bool TopK::full() const { return k_ >= 0 && scores_.size() >= static_cast<std::size_t>(k_); }

FULGURITE_BODY bool TopK::admits(double score) const {
  if (k_ == 0) return false;
  return !full() || watch::better(mode_, score, scores_[worst_at()]);
}

FULGURITE_BODY std::optional<std::filesystem::path> TopK::displaced() const {
  return full() && size() != 0 ? std::optional(paths_[worst_at()]) : std::nullopt;
}

FULGURITE_BODY std::vector<std::filesystem::path> TopK::add(std::filesystem::path file, double score, int epoch) {
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

FULGURITE_BODY bool TopK::contains(std::filesystem::path const& file) const {
  return std::find(paths_.begin(), paths_.end(), file) != paths_.end();
}

FULGURITE_BODY void TopK::drop(std::filesystem::path const& file) {
  if (auto const found = std::find(paths_.begin(), paths_.end(), file); found != paths_.end())
    drop(static_cast<std::size_t>(found - paths_.begin()));
}

FULGURITE_BODY void TopK::rename(FunctionRef<std::filesystem::path(std::filesystem::path const&)> named) {
  for (auto& path : paths_) path = named(path);
}

FULGURITE_BODY void TopK::clear() {
  paths_.clear();
  scores_.clear();
  epochs_.clear();
}

FULGURITE_BODY void TopK::drop(std::size_t place) {
  auto const at = static_cast<std::ptrdiff_t>(place);
  paths_.erase(paths_.begin() + at);
  scores_.erase(scores_.begin() + at);
  epochs_.erase(epochs_.begin() + at);
}

FULGURITE_BODY std::size_t TopK::first(Mode mode) const {
  std::size_t at = 0;
  for (std::size_t i = 1; i < scores_.size(); ++i)
    if (watch::better(mode, scores_[i], scores_[at])) at = i;
  return at;
}

FULGURITE_BODY std::size_t TopK::worst_at() const { return first(mode_ == Mode::min ? Mode::max : Mode::min); }

FULGURITE_BODY std::optional<std::filesystem::path> Ranking::displaced_by(SavingFile const& now, int save_top_k) const {
  if (now.score) return top.displaced();
  if (save_top_k == 1 && !best.empty()) return best;
  return std::nullopt;
}

FULGURITE_BODY void Ranking::add(std::filesystem::path const& file, SavingFile const& now, int save_top_k) {
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

FULGURITE_BODY void Ranking::take_best() {
  bool const any = top.size() != 0;
  best = any ? top.best_path() : std::filesystem::path();
  best_score = any ? std::optional(top.best_score()) : std::nullopt;
  best_epoch = any ? top.best_epoch() : 0;
}

FULGURITE_BODY KeptFiles::KeptFiles(ModelCheckpointOptions const& how) : ranking_{TopK(how.mode, how.save_top_k)} {}

FULGURITE_BODY void KeptFiles::hold(HeldFiles& held, HeldFiles::Holder holder) const {
  for (auto const& file : ranking_.top.paths()) held.hold(file, holder);
  for (auto const& file : {ranking_.best, last_.file})
    if (!file.empty()) held.hold(file, holder);
}

FULGURITE_BODY std::vector<std::filesystem::path> KeptFiles::gone() const {
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
  if (last_.pending.empty() || !is_there(last_.pending)) look(last_.file);  // otherwise "last" is not made yet
  return files;
}

FULGURITE_BODY void KeptFiles::forget(std::vector<std::filesystem::path> const& files) {
  auto const is_one = [&](auto const& file) { return std::find(files.begin(), files.end(), file) != files.end(); };
  for (auto const& file : files) ranking_.top.drop(file);
  if (is_one(last_.file)) last_ = {.step = last_.step};
  if (is_one(ranking_.best)) ranking_.take_best();
}

FULGURITE_BODY void KeptFiles::respell(std::filesystem::path const& before, std::filesystem::path const& now) {
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

FULGURITE_BODY void KeptFiles::leave() {
  ranking_.top.clear();
  if (!ranking_.best_score) ranking_.best.clear();
  ranking_.outdated.clear();
  last_ = {.step = last_.step};
}

FULGURITE_BODY SavedFile KeptFiles::save(CheckpointFiles& files, std::filesystem::path const& folder,
                                         ModelCheckpointOptions const& how, SavingFile const& now, Named named) {
  auto saving = begin(files, folder, how, now, std::move(named));
  return finish(files, saving);
}

FULGURITE_BODY void KeptFiles::save_later(CheckpointFiles& files, std::filesystem::path const& folder,
                                          ModelCheckpointOptions const& how, SavingFile const& now, Named named,
                                          std::function<void(CheckpointFiles&, SavedFile const&)> then) {
  auto saving = begin(files, folder, how, now, std::move(named));
  std::vector<CheckpointFiles::Planned> planned;
  if (saving.keeps()) planned.push_back({saving.file.path, saving.file.is_new});
  if (saving.has_last() && copies_last(how)) planned.push_back({saving.last.path, saving.last.is_new});
  try {
    files.write_later(planned, how.save_weights_only,
                      [this, saving, then](CheckpointFiles& done) mutable { then(done, finish(done, saving)); });
  } catch (...) {
    ranking_ = saving.ranking_before;
    last_ = saving.last_before;
    saving.named({});
    then(files, SavedFile{.failure = std::current_exception()});
  }
}

FULGURITE_BODY SavedFile KeptFiles::save_last(CheckpointFiles& files, std::filesystem::path const& folder,
                                              ModelCheckpointOptions how, long step, Named named) {
  how.save_top_k = 0;
  return save(files, folder, how, {.name = {}, .step = step}, std::move(named));
}

FULGURITE_BODY void KeptFiles::sweep(CheckpointFiles& files, std::filesystem::path const& folder) {
  std::erase_if(ranking_.outdated, [&](std::filesystem::path const& file) {
    std::error_code unknown;
    if (std::filesystem::is_symlink(last_.file, unknown) && std::filesystem::equivalent(last_.file, file, unknown))
      return false;
    make_room(files, folder, file);
    return !files.writes() || files.of_others(file) ||
           std::filesystem::symlink_status(file, unknown).type() == std::filesystem::file_type::not_found;
  });
}

FULGURITE_BODY bool KeptFiles::is_unfinished() const { return !last_.pending.empty() || !ranking_.outdated.empty(); }

FULGURITE_BODY void link_last(CheckpointFiles& files, std::filesystem::path const& last,
                              std::filesystem::path const& file) {
  files.make(last, [&](auto const& link) { file::link_to(file, link); });
}

FULGURITE_BODY void KeptFiles::complete(CheckpointFiles& files, std::filesystem::path const& folder,
                                        ModelCheckpointOptions const& how) {
  bool const is_due = how.save_last.kind != SaveLast::no && is_behind(last_.file, last_.pending);
  if (files.of_first_rank(is_due)) {
    if (copies_last(how)) files.write(last_.file, how.save_weights_only);
    else link_last(files, last_.file, last_.pending);
  }
  last_.pending.clear();
  sweep(files, folder);
}

FULGURITE_BODY bool KeptFiles::copies_last(ModelCheckpointOptions const& how) {
  return how.save_last.kind == SaveLast::copy || (how.save_last.kind == SaveLast::link && how.save_top_k == 0);
}

FULGURITE_BODY bool KeptFiles::Saving::keeps() const { return how.save_top_k != 0 || !now.ranked; }

FULGURITE_BODY bool KeptFiles::Saving::has_last() const { return how.save_last.kind != SaveLast::no; }

FULGURITE_BODY KeptFiles::Saving KeptFiles::begin(CheckpointFiles& files, std::filesystem::path const& folder,
                                                  ModelCheckpointOptions const& how, SavingFile const& now,
                                                  Named named) {
  sweep(files, folder);  // files that the previous process left to remove
  Saving saving{folder, how, now, ranking_, last_, std::move(named)};
  name_both(files, saving);
  return saving;
}

FULGURITE_BODY void KeptFiles::name_last(CheckpointFiles& files, Saving& saving) {
  auto const before = saving.last.path;
  auto const& [folder, how, now, ranking_before, last_before, named, file, last] = saving;
  saving.last = saving.has_last() ? fresh(files, folder, how, "last", last_before.file, file.path) : SavingName{};
  if (saving.has_last()) {
    last_ = {last.path, now.step, file.path};
    ranking_.keep(last.path);
  }
  files.renamed(before, last.path);
}

FULGURITE_BODY void KeptFiles::name_both(CheckpointFiles& files, Saving& saving) {
  auto const before = saving.file.path;
  ranking_ = saving.ranking_before;
  if (saving.keeps()) saving.file = place(files, saving.folder, saving.how, saving.now);
  files.renamed(before, saving.file.path);
  name_last(files, saving);
  saving.named(saving.keeps() ? saving.file.path : saving.last.path);
}

FULGURITE_BODY SavedFile KeptFiles::finish(CheckpointFiles& files, Saving& saving) {
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
    saving.named({});  // what the failed file would have been is in no outcome
    saving.named(saving.last.path);
  }
  bool there = true;
  if (saving.has_last()) {
    auto const rename_last = [&] {
      name_last(files, saving);
      if (written) write_file();  // its state contains the name of "last"
      else saving.named(saving.last.path);
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
  // A link that could not be updated still leads to the file that would be removed.
  if (written && (there || copies_last(how))) sweep(files, saving.folder);
  saving.named(saved.file);
  return saved;
}

FULGURITE_BODY SavingName KeptFiles::place(CheckpointFiles& files, std::filesystem::path const& folder,
                                           ModelCheckpointOptions const& how, SavingFile const& now) {
  if (!now.ranked) return fresh(files, folder, how, now.name, {});
  auto const ours = ranking_.displaced_by(now, how.save_top_k).value_or(std::filesystem::path{});
  auto name = fresh(files, folder, how, now.name, ours);
  ranking_.add(name.path, now, how.save_top_k);
  return name;
}

FULGURITE_BODY SavingName KeptFiles::fresh(CheckpointFiles& files, std::filesystem::path const& folder,
                                           ModelCheckpointOptions const& how, std::string const& name,
                                           std::filesystem::path const& ours,
                                           std::filesystem::path const& beside) const {
  if (!how.enable_version_counter) return {folder / (name + how.extension), false};
  auto const overwritten = files.of_others(ours) || ours == beside ? std::filesystem::path{} : ours;
  auto path = unused_name(folder, name, how.extension, overwritten, [&](auto const& other) {
    return other == beside || ranking_.top.contains(other) || files.taken(other);
  });
  bool const is_new = path != overwritten;
  return {std::move(path), is_new};
}

void SavingFile::state(auto& archive) {
  archive("name", name)("score", score)("epoch", epoch)("step", step)("ranked", ranked);
}
FULGURITE_STATE(SavingFile)

void TopK::state(auto& archive) { archive("paths", paths_)("scores", scores_)("epochs", epochs_); }
FULGURITE_STATE(TopK)

void KeptFiles::state(auto& archive) {
  archive("best_model_path", ranking_.best)("best_model_score", ranking_.best_score)("best_epoch", ranking_.best_epoch);
  archive("last_model_path", last_.file)("last_written_step", last_.step)("last_pending", last_.pending);
  archive("outdated", ranking_.outdated);
  archive.child("best_k_models", ranking_.top);
}
FULGURITE_STATE(KeptFiles)

}  // namespace fulgurite::checkpointing
