#pragma once
// What the units about fits that go on share: a fit that leaves a file at each of its places, and the comparison of
// what comes after each file with what the unbroken fit still did.

#include "fixtures.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fulgurite/checkpoint/run_file.hpp>
#include <fulgurite/fulgurite.hpp>

namespace resumed {

using namespace fulgurite;
namespace fs = std::filesystem;
using Rows = std::vector<std::string>;

/// FNV-1a, over bytes.
struct Hash {
  std::uint64_t value = 1469598103934665603ULL;
  void add(void const* bytes, std::size_t size) {
    for (std::size_t i = 0; i != size; ++i)
      value = (value ^ static_cast<unsigned char const*>(bytes)[i]) * 1099511628211ULL;
  }
  void add(torch::Tensor const& tensor) {
    auto const host = tensor.detach().cpu().contiguous();
    add(host.const_data_ptr(), host.nbytes());
  }
};

/// A folder's or a file's name that no other process has.
inline fs::path of_this_process(std::string const& name) {
  return fs::temp_directory_path() / ("fulgurite_" + name + "_" + std::to_string(::getpid()));
}

/// Notes rows, files, and the hooks between them. After each batch, validation and epoch two functions may leave files,
/// and say what is noted of them, if anything.
struct Watches {
  using Stateless = ByChoice;
  static constexpr Order order = Order::checkpoint;
  Rows* rows = nullptr;
  /// At the safe point that follows.
  std::function<std::string(CheckpointFiles&)> leave = nullptr;
  /// In the hook itself: which one, and whether a window is open.
  std::function<std::string(std::string const&, bool)> at_once = nullptr;

  void on_train_epoch_start(auto& ctx) { hear("train_epoch_start", ctx); }
  void on_train_batch_start(auto& ctx) { hear("train_batch_start", ctx); }
  void on_before_optimizer_step(auto& ctx) { hear("before_optimizer_step", ctx); }
  void on_train_batch_end(auto& ctx) { ended("train_batch_end", ctx); }
  void on_validation_start(auto& ctx) {
    if (!ctx.sanity_checking()) hear("validation_start", ctx);
  }
  void on_validation_end(auto& ctx) {
    if (!ctx.sanity_checking()) ended("validation_end", ctx);
  }
  void on_train_epoch_end(auto& ctx) { ended("train_epoch_end", ctx); }
  void on_train_end(auto& ctx) { hear("train_end", ctx); }
  void log_metrics(std::span<Scalar const> cells, long x) {
    std::string row = std::to_string(x);
    for (auto const& cell : cells) {
      char bits[40];
      std::snprintf(bits, sizeof bits, " %a", cell.value);
      row += " " + std::string(cell.name) + bits;
    }
    rows->push_back(row);
  }

 private:
  void hear(std::string const& hook, auto& ctx) {
    rows->push_back(hook + " " + std::to_string(ctx.current_epoch()) + " " + std::to_string(ctx.global_step()));
  }
  void ended(std::string const& hook, auto& ctx) {
    hear(hook, ctx);
    if (at_once) note(at_once(hook, ctx.accumulating()));
    if (leave) ctx.request_checkpoint({this, [this](CheckpointFiles& files) { note(leave(files)); }});
  }
  void note(std::string const& what) {
    if (!what.empty()) rows->push_back(what);
  }
};

/// All that a file of the trainer holds but times: moments, schedules, averages, counters, generators, results.
template <class Trainer>
std::string state_of(Trainer& trainer) {
  auto const path = of_this_process("ended.safetensors");
  trainer.save_checkpoint(path);
  SafetensorsFile const file(path);
  auto const state = run_state(file);
  fs::remove(path);
  std::string text;
  for (auto const* part : {"progress", "optimizers", "schedulers", "callbacks", "random", "results"})
    text += to_text(*state.find(part));
  return text;
}

/// Weights, buffers and that.
template <class Net, class Trainer>
std::uint64_t hash_of(Net& net, Trainer& trainer) {
  Hash hash;
  for (auto const& parameter : net.parameters()) hash.add(parameter);
  for (auto const& buffer : net.buffers()) hash.add(buffer);
  auto const state = state_of(trainer);
  hash.add(state.data(), state.size());
  return hash.value;
}

/// What a fit came to, and all that was noted on the way.
struct Ended {
  std::uint64_t hash = 0;
  Rows rows = {};
};

/// A fit of this trainer, from its beginning or from a file. A run that goes on does not depend on what its program
/// draws. `make(watches)` returns the trainer, `fit(trainer, net, from)` calls its fit.
template <class Net>
Ended run(Watches watches, std::optional<CkptPath> const& from, auto&& make, auto&& fit) {
  fixtures::Threads const one(1);  // nets as small as these gain nothing from more, which spin where others work
  torch::manual_seed(from ? 99 : 7);
  Net net;
  Ended ended;
  watches.rows = &ended.rows;
  auto trainer = make(watches);
  fit(trainer, net, from);
  ended.hash = hash_of(net, trainer);
  return ended;
}

/// What a fit that goes on from the file noted at `at` has still to note; files are no part of it.
inline Rows rest_after(Rows const& all, std::size_t at) {
  Rows rest(all.begin() + static_cast<std::ptrdiff_t>(at), all.end());
  std::erase_if(rest, [](std::string const& row) { return row.starts_with("file"); });
  return rest;
}

/// Logged rows behind the hooks, each in their order: those of a captured fit wait for a check of their steps, so where
/// they stand among the hooks depends on when there was one.
inline Rows rows_last(Rows rows) {
  std::stable_partition(rows.begin(), rows.end(), [](std::string const& row) { return row[0] < '0' || row[0] > '9'; });
  return rows;
}

/// Whether a fit that went on came to the end of the whole one, by that rest.
inline bool same_end(Ended const& now, Ended const& whole, Rows const& rest, bool rows_wait = false) {
  return now.hash == whole.hash && (rows_wait ? rows_last(now.rows) == rows_last(rest) : now.rows == rest);
}

/// How many of the files do not lead to the end of the unbroken run, and how many there are.
using Wrong = std::pair<int, int>;

/// A file at each place: `one(watches, from)` is a fit, whose logged rows may come late. Given `save`, which the fit
/// sets to its trainer's save_checkpoint, each end of a batch leaves another one at once, inside of open windows, too.
template <class One>
Wrong wrong_files(One&& one, bool rows_wait = false, std::function<void(fs::path const&)>* save = nullptr) {
  auto const folder = of_this_process("resume");
  fs::remove_all(folder);
  int files = 0, wrong = 0;
  auto const name = [&](int file) { return folder / (std::to_string(file) + ".safetensors"); };
  Watches leaves{.leave = [&](CheckpointFiles& to) {
    to.write(name(files++));
    return std::string("file");
  }};
  if (save != nullptr)
    leaves.at_once = [&](std::string const& hook, bool) {
      if (hook != "train_batch_end") return std::string();
      (*save)(name(files++));
      return std::string("file");
    };
  auto const whole = one(leaves, std::nullopt);
  std::size_t after = 0;
  for (int file = 0; file != files; ++file) {
    while (whole.rows[after++] != "file") {}
    auto const now = one(Watches{}, CkptPath{name(file)});
    wrong += !same_end(now, whole, rest_after(whole.rows, after), rows_wait);
  }
  fs::remove_all(folder);
  return {wrong, files};
}

}  // namespace resumed
