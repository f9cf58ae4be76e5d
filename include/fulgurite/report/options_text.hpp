#pragma once
// The trainer's options as a person reads them, one a line.

#include <string>
#include <string_view>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/root_folder.hpp>
#include <fulgurite/loop/limits.hpp>
#include <fulgurite/loop/options.hpp>
#include <fulgurite/loop/silence.hpp>
#include <fulgurite/policy/optimization.hpp>
#include <fulgurite/report/field_text.hpp>
#include <fulgurite/report/numbers.hpp>

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
inline std::string field_text(NonFinite what) {
  return what == NonFinite::stop ? "stop" : what == NonFinite::skip ? "skip" : "ignore";
}
inline std::string field_text(Silence const& silence) {
  std::string all;
  for (auto const one : silence.all()) (all += all.empty() ? "" : ", ") += one;
  return all.empty() ? "none" : all;
}

namespace report {

/// f(name, option) for each, in their order, but for the clock, and for default_root_dir: where a run lies is no part
/// of what it is.
template <class F>
void each_option(TrainerOptions const& o, F f) {
  f("max_epochs", o.max_epochs), f("min_epochs", o.min_epochs), f("max_steps", o.max_steps);
  f("min_steps", o.min_steps), f("max_time", o.max_time);
  f("limit_train_batches", o.limit_train_batches), f("limit_val_batches", o.limit_val_batches);
  f("limit_test_batches", o.limit_test_batches), f("limit_predict_batches", o.limit_predict_batches);
  f("val_check_interval", o.val_check_interval), f("check_val_every_n_epoch", o.check_val_every_n_epoch);
  f("num_sanity_val_steps", o.num_sanity_val_steps), f("log_every_n_steps", o.log_every_n_steps);
  f("fast_dev_run", o.fast_dev_run), f("overfit_batches", o.overfit_batches);
  f("reload_dataloaders_every_n_epochs", o.reload_dataloaders_every_n_epochs);
  f("use_distributed_sampler", o.use_distributed_sampler), f("inference_mode", o.inference_mode);
  f("non_finite", o.non_finite), f("detect_anomaly", o.detect_anomaly), f("deterministic", o.deterministic);
  f("benchmark", o.benchmark), f("barebones", o.barebones), f("save_in_background", o.save_in_background),
      f("silence", o.silence);
}

/// All options with their values, `max_epochs = 10`, those that nobody gave too; then those of the optimization.
template <class Optimization>
std::string options_text(TrainerOptions const& options, Optimization const& how) {
  using reflect::field_text;
  std::string text;
  auto const add = [&](std::string_view name, auto const& value) {
    ((text += name) += " = ").append(field_text(value)) += '\n';
  };
  each_option(options, add);
  if constexpr (requires { how.accumulate_grad_batches; }) {
    add("accumulate_grad_batches", how.accumulate_grad_batches);
    add("clip", how.clip);
    add("tbptt", how.tbptt);
  }
  return text;
}

}  // namespace report
}  // namespace fulgurite
