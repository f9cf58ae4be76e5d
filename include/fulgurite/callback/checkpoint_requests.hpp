#pragma once
// The files that a ModelCheckpoint has asked for and that are not written yet.

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fulgurite/callback/checkpoint_results.hpp>
#include <fulgurite/callback/watch.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/loop/checkpoint_files.hpp>
#include <fulgurite/loop/outcome.hpp>

namespace fulgurite::checkpointing {

/// A file that was asked for and is not written yet.
struct Waiting {
  SavingFile file{};      ///< nothing yet where `in_batch`
  long before = 0;        ///< the step of the file before it
  bool in_batch = false;  ///< for the step of a batch: it is ranked and named when it is due

  void state(auto& archive) { archive("file", file)("before", before)("in_batch", in_batch); }
};

/// Each is written at the trainer's next safe point.
class Requests : public Results {
 protected:
  using Results::Results;

  bool at_train_epoch_end(auto& ctx) const { return watch::at_train_epoch_end(options_.save_on_train_epoch_end, ctx); }
  void request(auto& ctx, SavingFile now) {
    long const before = std::exchange(last_saved_, ctx.global_step());
    ask(ctx, {std::move(now), before});
  }

  /// Asks for a file. Its name on the disk is chosen when it is written, since those of other callbacks exist by then.
  void ask(auto& ctx, Waiting const& now) {
    waiting_ = now;
    ctx.request_checkpoint(
        {this, [this, now, &outcome = ctx.outcome()](CheckpointFiles& files) { write_waiting(files, now, outcome); }});
  }
  /// What was asked for is due.
  FULGURITE_COLD void write_waiting(CheckpointFiles& files, Waiting const& now, Outcome& outcome) {
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
  /// Asks for the file called last, unless it holds this step.
  void ask_for_last(auto& ctx) {
    ctx.request_checkpoint({this, [this, step = ctx.global_step(), &outcome = ctx.outcome()](CheckpointFiles& files) {
                              if (kept_.last().step != step)
                                settle(kept_.save_last(files, dirpath(), options_, step), outcome);
                            }});
  }

  void tell_of_gone(auto& ctx) {
    if (gone_.empty()) return;
    std::string all;
    for (auto const& file : gone_) (all += all.empty() ? "" : ", ") += file.string();
    ctx.warn_each("fulgurite.callback.checkpoint_gone", "ModelCheckpoint: " + all +
                                                            ": kept by the run that goes on, and no longer there; what "
                                                            "is gone leaves the ranking");
  }

  std::optional<Waiting> waiting_ = std::nullopt;
  std::vector<std::filesystem::path> gone_{};  ///< files of the state that was loaded that are not there
  long last_saved_ = 0;                        ///< the step of the latest file that was asked for
  bool deferred_ = false;
};

}  // namespace fulgurite::checkpointing
