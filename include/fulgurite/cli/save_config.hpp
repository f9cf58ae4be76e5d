#pragma once
// Writes what a run was told into its folder.

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <type_traits>
#include <utility>

#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/hook/hooks.hpp>

namespace fulgurite {

template <class M, class S, class P, class O, class... Cs>
class Trainer;

namespace cli {

/// When a fit starts, config.toml in the folder of the log, or in default_root_dir where nothing is logged. A file of
/// other values stays: then it is config-2.toml, and so on.
class SaveConfig {
 public:
  using Hooks = Implements<hook::on_fit_start>;
  using Stateless = ByChoice;
  static constexpr bool inert_in_dev_run = true;

  explicit SaveConfig(std::string text) : text_(std::move(text)) {}

  void on_fit_start(auto& ctx) {
    if (ctx.rank() != 0 || ctx.dev_run() || ctx.options().barebones) return;
    std::filesystem::path folder = ctx.log_dir();
    if (folder.empty()) folder = ctx.options().default_root_dir;
    std::filesystem::create_directories(folder);
    for (int number = 1;; ++number) {
      file_ = folder / (number == 1 ? "config.toml" : "config-" + std::to_string(number) + ".toml");
      if (!std::filesystem::exists(file_)) return write_durably(file_, text_);
      std::ifstream stream(file_, std::ios::binary);
      if (std::string(std::istreambuf_iterator<char>(stream), {}) == text_) return;
    }
  }

  /// Where the values of the last fit stand; empty before.
  std::filesystem::path const& file() const { return file_; }

 private:
  std::string text_;
  std::filesystem::path file_{};
};

/// The trainer has the callback that keeps what it was told.
template <class T>
inline constexpr bool keeps_config = false;
template <class M, class S, class P, class O, class... Cs>
inline constexpr bool keeps_config<Trainer<M, S, P, O, Cs...>> = (std::is_same_v<SaveConfig, Cs> || ...);

/// The trainer was made of all that the command line made.
template <class Made>
consteval bool has_all_parts() {
  constexpr bool has = keeps_config<Made>;
  static_assert(has, "[fulgurite.cli.parts] a program's make_trainer is given all that the command line made: write "
                     "[](auto... parts) { return make_trainer<Net>(parts..., Mine{}); }");
  return has;
}

}  // namespace cli
}  // namespace fulgurite
