#pragma once
// What a run would refuse once its data are there, said before they are read.

#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

#include <fulgurite/core/error.hpp>
#include <fulgurite/diagnose/checked_options.hpp>
#include <fulgurite/loop/special_run.hpp>

namespace fulgurite::cli {

/// Of `fit`, whose trainer may have limits of the program's own: Error where nothing ends it.
template <class Trainer>
void check_end(Trainer const& trainer) {
  try {
    loop::check_end(loop::effective(trainer.given_options()));
  } catch (Error const& error) {
    throw Error(error.identifier(),
                "nothing ends this run: say --trainer.max_epochs, --trainer.max_steps or --trainer.max_time "
                "(--trainer.max_epochs -1 asks for an endless one)");
  }
}

/// A file that is not there. What "last" and "hpc" mean is looked for by the trainer; "best" is known to a process that
/// has trained, which no verb goes on after.
inline void check_ckpt_path(std::optional<std::string> const& path) {
  if (!path || *path == "last" || *path == "hpc") return;
  if (*path == "best")
    throw Error("fulgurite.cli.ckpt_path", "--ckpt_path best: which file is the best is known to the process that has "
                                           "trained alone: name the file");
  std::error_code unknown;
  if (!std::filesystem::exists(*path, unknown))
    throw Error("fulgurite.cli.ckpt_path", "--ckpt_path " + *path + ": there is no such file");
  if (std::filesystem::is_directory(*path, unknown))
    throw Error("fulgurite.cli.ckpt_path",
                "--ckpt_path " + *path + ": this is a folder: name a file in it, or say last");
}

/// A device that this machine has not: strategies that know say it by `require_device()`.
template <class... Policies>
void check_devices([[maybe_unused]] Policies const&... policies) {
  [[maybe_unused]] auto const one = [](auto const& policy) {
    if constexpr (requires { policy.require_device(); }) policy.require_device();
  };
  (one(policies), ...);
}

}  // namespace fulgurite::cli
