#pragma once
// Saves a fit that ends by an exception, so that another one resumes there.

#include <concepts>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/callback/checkpoint_folder.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/type_name.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/checkpoint_files.hpp>
#include <fulgurite/loop/checkpoint_search.hpp>

namespace fulgurite {

/// Which file OnExceptionCheckpoint writes: FILENAME.safetensors in a folder.
struct OnExceptionCheckpointOptions {
  std::filesystem::path dirpath = {};  ///< not given: default_root_dir
  /// Not given: "on_exception", and in default_root_dir, which other programs may use,
  /// "on_exception_<program>_<Model>".
  std::optional<std::string> filename = std::nullopt;
};

/// `OnExceptionCheckpoint{{.dirpath = "runs/mlp"}}` writes runs/mlp/on_exception.safetensors on any exception within a
/// fit, and removes it when a fit ends well, so that the file is there exactly when there is something to rescue. The
/// next fit, of this program or of the same one started again, resumes from it by itself, at the batch that failed,
/// unless it is given another file. Error where the filename is empty or leads out of the folder.
class OnExceptionCheckpoint {
 public:
  using Hooks = Implements<hook::setup, hook::on_exception, hook::teardown>;
  using Stateless = ByChoice;
  static constexpr Order order = Order::checkpoint;
  static constexpr bool inert_in_dev_run = true;  ///< a rehearsal has nothing to rescue
  static constexpr std::string_view reads = "the state of the run";

  explicit OnExceptionCheckpoint(OnExceptionCheckpointOptions const& options = {})
      : dirpath_(options.dirpath), filename_(options.filename), file_(file_in({}, {})) {
    if (auto const why = checkpointing::why_no_name(filename_.value_or("on_exception"), {}, dirpath_); !why.empty())
      throw Error("fulgurite.callback.on_exception",
                  "OnExceptionCheckpoint's filename: " + why + "; leave it out for \"on_exception\"");
  }

  /// Refused with a sentence: the folder is an option.
  template <std::convertible_to<std::filesystem::path> Folder, bool is_option = false>
  explicit OnExceptionCheckpoint(Folder const&, std::string const& = {}) {
    static_assert(is_option, "[fulgurite.callback.dirpath] OnExceptionCheckpoint's folder is an option: "
                             "OnExceptionCheckpoint{{.dirpath = \"runs\"}}");
  }

  void setup(auto& ctx) {
    file_ = file_in(ctx.options().default_root_dir.path(), type_name<std::remove_cvref_t<decltype(ctx.model())>>());
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
  static constexpr bool resumes_fit = true;  ///< a fit without a `CkptPath` resumes from `last_checkpoints()`
  std::vector<std::filesystem::path> last_checkpoints(CheckpointSearch const& search = {}) const {
    return {search.model.empty() ? file_ : file_in(search.root, search.model)};
  }

 private:
  static bool in_fit(auto& ctx) { return ctx.stage() == decltype(ctx.stage())::fit && !ctx.dev_run(); }
  std::filesystem::path file_in(std::filesystem::path const& root, std::string_view model) const {
    auto const usual = dirpath_.empty() ? checkpointing::name_of_run("on_exception", model) : "on_exception";
    return (dirpath_.empty() ? root : dirpath_) / (filename_.value_or(usual) + ".safetensors");
  }

  std::filesystem::path dirpath_;
  std::optional<std::string> filename_;
  std::filesystem::path file_;
};

}  // namespace fulgurite
