#pragma once
// The bodies of callback/model_checkpoint.hpp.

#include <cstddef>
#include <exception>

#include <fulgurite/callback/model_checkpoint.hpp>
#include <fulgurite/core/archive.hpp>

namespace fulgurite::checkpointing {

FULGURITE_BODY std::vector<std::filesystem::path> Place::folders(CheckpointSearch const& search) const {
  if (!folder_.empty()) return {folder_};
  if (!given_.empty()) return {given_};
  if (!search.runs) return {(search.root / "checkpoints").lexically_normal()};
  std::vector<std::filesystem::path> folders;
  for (auto const& run : *search.runs) folders.push_back(run / "checkpoints");
  return folders;
}

FULGURITE_BODY void Place::do_not_continue() {
  folder_ = before_;
  loaded_.clear();
  moved_from_.clear();
  other_spelling_.clear();
}

FULGURITE_BODY std::filesystem::path Place::take_other_spelling() { return std::exchange(other_spelling_, {}); }

FULGURITE_BODY bool Place::moved() {
  if (loaded_.empty() || folder_.empty() || loaded_ == folder_) return false;
  bool const same = is_same(loaded_, folder_);
  (same ? other_spelling_ : moved_from_) = std::exchange(loaded_, {});
  return !same;
}

FULGURITE_BODY bool Place::is_same(std::filesystem::path const& one, std::filesystem::path const& other) {
  std::error_code no_one, no_other;
  auto const a = std::filesystem::weakly_canonical(std::filesystem::absolute(one), no_one),
             b = std::filesystem::weakly_canonical(std::filesystem::absolute(other), no_other);
  return !no_one && !no_other && a == b;
}

FULGURITE_BODY std::filesystem::path Results::kth_best_model_path() const {
  return top().full() && top().size() != 0 ? top().worst_path() : std::filesystem::path{};
}

FULGURITE_BODY std::optional<double> Results::kth_value() const {
  return top().full() && top().size() != 0 ? std::optional(top().worst_score()) : std::nullopt;
}

FULGURITE_BODY void Results::to_yaml(std::filesystem::path const& file) const {
  std::string text;
  for (std::size_t i = 0; i != top().size(); ++i)
    text += report::yaml(top().paths()[i].string()) + ": " + report::yaml(top().scores()[i]) + "\n";
  write_durably(file.empty() ? dirpath() / "best_k_models.yaml" : file, text.empty() ? "{}\n" : text);
}

FULGURITE_BODY Results::Results(ModelCheckpointOptions options, std::string watched, std::string_view metric)
    : options_(std::move(options)),
      place_(options_.dirpath),
      kept_(options_),
      watched_(std::move(watched)),
      metric_(metric) {}

FULGURITE_BODY void Results::tell(bool here, std::string const& what) const {
  if (options_.verbose && here) fulgurite::tell(stderr, "ModelCheckpoint: " + what + "\n");
}

FULGURITE_BODY void Results::settle(SavedFile const& saved, Outcome& outcome) const {
  if (!saved.file.empty()) outcome.last_file = saved.file;
  publish(outcome);
  if (saved.failure) std::rethrow_exception(saved.failure);
}

FULGURITE_BODY void Results::publish(Outcome& outcome) const {
  auto const& ranking = kept_.ranking();
  if (watched_.empty() || !ranking.best_score) return;
  outcome.best_metric = watched_;
  outcome.best_metric_name = metric_;
  outcome.best_value = ranking.best_score;
  outcome.best_epoch = ranking.best_epoch;
  outcome.best_file = ranking.best;
}

FULGURITE_BODY bool Results::writes_any() const {
  return options_.save_top_k != 0 || options_.save_last.kind != SaveLast::no;
}

FULGURITE_BODY void Requests::write_waiting(CheckpointFiles& files, Waiting const& now, Outcome& outcome) {
  gone_.clear();     // a name may be used again
  waiting_.reset();  // the state in the file is that of after it
  auto const then = [this, before = now.before, &outcome](CheckpointFiles const& done, SavedFile const& saved) {
    if (saved.file.empty()) last_saved_ = before;
    else tell(done.writes(), "saved " + saved.file.string());
    settle(saved, outcome);
  };
  if (files.later()) kept_.save_later(files, dirpath(), options_, now.file, then);
  else then(files, kept_.save(files, dirpath(), options_, now.file));
}

void Place::state(auto& archive) {
  auto saved = folder_;
  archive("dirpath", saved);
  if (!archive.loading) return;
  loaded_ = saved;
  if (!given_.empty()) folder_ = given_;
  else if (!chosen_) folder_ = saved;
  is_elsewhere_ = moved();
}
FULGURITE_STATE(Place)

void Waiting::state(auto& archive) { archive("file", file)("before", before)("in_batch", in_batch); }
FULGURITE_STATE(Waiting)

}  // namespace fulgurite::checkpointing
