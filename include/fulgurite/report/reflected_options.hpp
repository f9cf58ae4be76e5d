#pragma once
// The trainer's options, reflected: `reflect::text(trainer.options(), TrainerOptions{})` says what was asked for.

#include <string>

#include <fulgurite/core/root_folder.hpp>
#include <fulgurite/loop/limits.hpp>
#include <fulgurite/loop/options.hpp>
#include <fulgurite/policy/optimization.hpp>
#include <fulgurite/report/numbers.hpp>
#include <fulgurite/report/reflected.hpp>

namespace fulgurite {

/// How much of a loader is taken: "all", "10 batches" or "0.5 of it".
inline std::string field_text(Limit const& limit) {
  if (limit.all()) return "all";
  return limit.kind == Limit::Kind::batches ? std::to_string(limit.batches) + " batches"
                                            : report::exact(limit.part) + " of it";
}
inline std::string field_text(ValidationInterval const& every) {
  if (every.kind == ValidationInterval::Kind::time) return reflect::field_text(every.time);
  if (every.epoch_end()) return "the epoch's end";
  return every.kind == ValidationInterval::Kind::batches ? std::to_string(every.batches) + " batches"
                                                         : report::exact(every.part) + " of an epoch";
}
inline std::string field_text(Clip const& clip) {
  if (clip.kind == Clip::Kind::none) return "none";
  return (clip.kind == Clip::Kind::norm ? "norm " : "value ") + report::exact(clip.limit);
}
inline std::string field_text(RootFolder const& folder) { return folder.path().string(); }

}  // namespace fulgurite

BOOST_HANA_ADAPT_STRUCT(fulgurite::TrainerOptions, max_epochs, min_epochs, max_steps, min_steps, max_time,
                        limit_train_batches, limit_val_batches, limit_test_batches, limit_predict_batches,
                        val_check_interval, check_val_every_n_epoch, num_sanity_val_steps, log_every_n_steps,
                        fast_dev_run, overfit_batches, reload_dataloaders_every_n_epochs, use_distributed_sampler,
                        inference_mode, non_finite, detect_anomaly, deterministic, benchmark, barebones,
                        default_root_dir, save_in_background, silence, now);
BOOST_HANA_ADAPT_STRUCT(fulgurite::Automatic, accumulate_grad_batches, clip, tbptt);
