#pragma once
// All that a file or a snapshot holds of a run beside the weights, as one fold over its parts.

#include <string>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/loop/before_cut.hpp>
#include <fulgurite/loop/loader_state.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/run_position.hpp>
#include <fulgurite/loop/run_state.hpp>
#include <fulgurite/loop/shared_files.hpp>
#include <fulgurite/loop/warnings.hpp>

namespace fulgurite::loop {

/// What is there before the optimizers are made: where in the run the weights were, the model's own state, the data
/// module, policies and callbacks.
template <class R, class Pack, class Source, class Archive>
void fold_model(State<R>& run, Pack& pack, Source& source, Archive& archive) {
  fold_weights_state(run, archive);
  fold_data_module_of_file(run, source, archive);
  fold_parts(run, pack, archive);
}

/// One warning for all options of the program that are not those of the file.
FULGURITE_COLD void warn_of_options(std::vector<std::string> const& differences, Warn warn) {
  std::string all;
  for (auto const& one : differences) all += (all.empty() ? "" : "; ") + one;
  if (!all.empty())
    warn("fulgurite.resume.options", "the program has other options than the file, and its own are used: " + all);
}

/// All of it. `source` has the training loader, which tells how far it is; random numbers go on as they are now.
template <class R, class Pack, class Source, class Archive>
void fold_everything(State<R>& run, Pack& pack, Source& source, Archive& archive) {
  fold_model(run, pack, source, archive);
  fold_optimizers(run, archive);
  fold_loader(run, source, archive);
  fold_kept_cut(run, archive);
  fold_run(run, archive);
  fold_parts_of_all(run, archive);
  fold_random(run, archive);
  if constexpr (Archive::loading)
    warn_of_options(differences(archive), [&](auto identifier, auto sentence) { run.warn_each(identifier, sentence); });
}

}  // namespace fulgurite::loop
