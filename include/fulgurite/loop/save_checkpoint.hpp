#pragma once
// A file that the program asks for itself, at once.

#include <filesystem>

#include <fulgurite/core/error.hpp>
#include <fulgurite/loop/data_source.hpp>
#include <fulgurite/loop/loader_state.hpp>
#include <fulgurite/loop/run.hpp>
#include <fulgurite/loop/write_checkpoint.hpp>
#include <fulgurite/policy/checks_replays.hpp>

namespace fulgurite::loop {

/// All of the run: inside of a fit with what that knows of its data, after it with what they had kept of themselves.
template <class R, class Pack>
void save_checkpoint(State<R>& run, Pack& pack, NoModule& none, std::filesystem::path const& path) {
  if (!run.parts.fitted || !run.parts.optimizers)
    throw Error("fulgurite.trainer.nothing_to_save",
                "there is no run to save to " + path.string() + " yet: call fit first");
  FittedModel const fitted(run);
  if constexpr (ChecksReplays<typename R::Strategy>)
    if (run.parts.strategy.unchecked() != 0)
      run.warn("fulgurite.capture.unchecked", "save_checkpoint in a hook: replayed steps were not checked, so " +
                                                  path.string() + " may hold what is wrong: request_checkpoint");
  if (run.loading.write) {
    run.loading.write(path);
  } else if (run.left) {
    LeftData<R> data{{none, none}, *run.left};
    write_checkpoint(run, pack, data, path);
  } else {
    GivenLoaders<NoModule, NoModule> no_loaders{none, none};
    write_checkpoint(run, pack, no_loaders, path);
  }
  run.made.held_files.hold(path, nullptr);
}

}  // namespace fulgurite::loop
