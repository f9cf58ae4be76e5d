#pragma once
// Saves a fit that ends by an exception, so that another one goes on from there.

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fulgurite/callback/checkpoint_folder.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/checkpoint_files.hpp>

namespace fulgurite {

/// `OnExceptionCheckpoint{"runs/mlp"}` writes runs/mlp/on_exception.safetensors on any exception within a fit, and
/// removes it when a fit ends well, so that the file is there exactly when there is something to rescue. The next fit,
/// of this program or of the same one started anew, goes on from it by itself, at the batch that failed, unless it is
/// told where to go on from. Error where the filename is empty or leads out of the folder.
class OnExceptionCheckpoint {
 public:
  using Hooks = Implements<hook::setup, hook::on_exception, hook::teardown>;
  using Stateless = ByChoice;
  static constexpr Order order = Order::checkpoint;
  static constexpr bool inert_in_dev_run = true;  ///< a rehearsal has nothing to rescue
  static constexpr std::string_view reads = "the state of the run";

  explicit OnExceptionCheckpoint(std::filesystem::path const& dirpath, std::string const& filename = "on_exception")
      : file_(dirpath / (filename + ".safetensors")) {
    if (auto const why = checkpointing::why_no_name(filename, {}, dirpath); !why.empty())
      throw Error("fulgurite.callback.on_exception",
                  "OnExceptionCheckpoint's filename: " + why + "; leave it out for \"on_exception\"");
  }

  void setup(auto& ctx) {
    if (in_fit(ctx)) ctx.held_files().hold(file_, this);
  }
  void on_exception(auto& ctx) {
    // Outside fit there is nothing to rescue, and no file is written.
    if (in_fit(ctx)) ctx.request_checkpoint({this, [this](CheckpointFiles& files) { files.write(file_); }});
  }
  void teardown(auto& ctx) {
    if (!in_fit(ctx)) return;
    ctx.held_files().give_up(file_, this);
    std::error_code ignored;  // usually there is none
    if (ctx.rank() == 0 && !ctx.held_files().by_others(file_, this)) std::filesystem::remove(file_, ignored);
  }

  std::filesystem::path const& ckpt_path() const { return file_; }
  static constexpr bool resumes_fit = true;  ///< a fit that is not told otherwise goes on from `last_checkpoints()`
  std::vector<std::filesystem::path> last_checkpoints() const { return {file_}; }

 private:
  static bool in_fit(auto& ctx) { return ctx.stage() == decltype(ctx.stage())::fit && !ctx.dev_run(); }

  std::filesystem::path file_;
};

}  // namespace fulgurite
