#pragma once
// A file to go on from when a fit dies of an exception.

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>

namespace fulgurite {

/// `OnExceptionCheckpoint{"runs/mlp"}` writes runs/mlp/on_exception.safetensors on any exception inside fit, and removes it when a fit
/// ends well: so the file is there exactly when there is something to go on from. Error for an empty filename.
class OnExceptionCheckpoint {
 public:
  using Hooks = Implements<hook::on_exception, hook::teardown>;
  using Stateless = ByChoice;
  static constexpr Order order = Order::checkpoint;
  static constexpr bool inert_in_dev_run = true;  ///< nothing should go on from a rehearsal
  static constexpr std::string_view reads = "the state of the run";

  explicit OnExceptionCheckpoint(std::filesystem::path const& dirpath, std::string const& filename = "on_exception")
      : file_(dirpath / (filename + ".safetensors")) {
    if (filename.empty())
      throw Error("fulgurite.callback.on_exception", "OnExceptionCheckpoint: the filename is empty: leave it out for \"on_exception\"");
  }

  void on_exception(auto& ctx) {
    // Outside fit there is no state to go on from, and no file is written.
    if (ctx.stage() == decltype(ctx.stage())::fit && !ctx.dev_run()) ctx.request_checkpoint({file_});
  }
  void teardown(auto& ctx) {
    if (ctx.stage() != decltype(ctx.stage())::fit || ctx.dev_run() || ctx.rank() != 0) return;
    std::error_code ignored;  // usually there is none
    std::filesystem::remove(file_, ignored);
  }

  std::filesystem::path const& ckpt_path() const { return file_; }

 private:
  std::filesystem::path file_;
};

}  // namespace fulgurite
