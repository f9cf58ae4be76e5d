#pragma once
// Ends a run in good order where the system asks for its end, with a file from which it goes on.

#include <csignal>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fulgurite/core/caught_signals.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/interrupted.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/checkpoint_files.hpp>
#include <fulgurite/loop/checkpoint_search.hpp>

namespace fulgurite {

struct SignalsOptions {
  std::filesystem::path dirpath = {};            ///< of the file; empty: default_root_dir
  std::vector<int> signals = {SIGINT, SIGTERM};  ///< that end the run
};

/// `Signals{}` finishes the batch at hand, in a fit with the step of its window, when SIGINT (Ctrl-C) or SIGTERM has
/// come; writes interrupted.safetensors; lets everybody hear on_exception; and throws Interrupted, whose `exit_code()`
/// a program returns. The same signal again ends the program at once. The next fit goes on from the file by itself,
/// unless it is told where to go on from, and removes it when it ends well. It acts in training, validation, test,
/// predict and the sanity check; only a fit leaves a file. The handlers are the process's: two runs at a time cannot
/// have them both.
class Signals {
 public:
  using Hooks = Implements<hook::setup, hook::on_train_batch_end, hook::on_validation_batch_end,
                           hook::on_test_batch_end, hook::on_predict_batch_end, hook::on_exception, hook::teardown>;
  using Stateless = ByChoice;
  static constexpr Order order = Order::checkpoint;
  static constexpr std::string_view reads = "the state of the run";
  static constexpr bool resumes_fit = true;

  explicit Signals(SignalsOptions options = {}) : options_(std::move(options)) {}

  void setup(auto& ctx) {
    file_ = file_below(ctx.options().default_root_dir);
    if (in_fit(ctx)) ctx.held_files().hold(file_, this);
    caught_.reset();  // those of a run that was left without an end
    caught_ = std::make_shared<CaughtSignals>(options_.signals);
  }

  void on_train_batch_end(auto& ctx) {
    if (CaughtSignals::caught() == 0 || asked_) [[likely]]
      return;
    asked_ = true;
    // Thrown where the next file would be written: between steps.
    ctx.request_checkpoint({this, [](CheckpointFiles&) { throw Interrupted(CaughtSignals::caught()); }});
  }
  void on_validation_batch_end(auto&) { end_now(); }
  void on_test_batch_end(auto&) { end_now(); }
  void on_predict_batch_end(auto&) { end_now(); }

  void on_exception(std::exception const& error, auto& ctx) {
    if (in_fit(ctx) && dynamic_cast<Interrupted const*>(&error) != nullptr)
      ctx.request_checkpoint({this, [this](CheckpointFiles& files) { files.write(file_); }});
    forget();
  }
  void teardown(auto& ctx) {
    forget();
    if (!in_fit(ctx)) return;
    ctx.held_files().give_up(file_, this);
    std::error_code ignored;  // usually there is none
    if (ctx.rank() == 0 && !ctx.held_files().by_others(file_, this)) std::filesystem::remove(file_, ignored);
  }

  std::vector<std::filesystem::path> last_checkpoints(CheckpointSearch const& search = {}) const {
    return {file_.empty() ? file_below(search.root) : file_};
  }

 private:
  std::filesystem::path file_below(std::filesystem::path const& root) const {
    return (options_.dirpath.empty() ? root : options_.dirpath) / "interrupted.safetensors";
  }
  static bool in_fit(auto& ctx) { return ctx.stage() == decltype(ctx.stage())::fit && !ctx.dev_run(); }
  static void end_now() {
    if (int const signal = CaughtSignals::caught()) throw Interrupted(signal);
  }
  void forget() {
    caught_.reset();
    asked_ = false;
  }

  SignalsOptions options_;
  std::filesystem::path file_{};
  std::shared_ptr<CaughtSignals> caught_ = nullptr;
  bool asked_ = false;
};

}  // namespace fulgurite
