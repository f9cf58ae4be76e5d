// A fit that was stopped in the middle of a batch: while its end hooks were told it goes on after them, and the first
// window of an epoch that is done again is that of the same epoch.
#include <catch2/catch_test_macros.hpp>

#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fulgurite/callback/signals.hpp>
#include <fulgurite/callback/watch.hpp>
#include <fulgurite/data/loader.hpp>

#include "callback_run.hpp"
#include "callback_stderr.hpp"

using namespace fulgurite;

namespace {

/// Each step depends on all before it; `fails(batches)` is asked in the step.
struct Net {
  static constexpr Metric<"loss"> loss{.on_step = Report::yes, .on_epoch = Report::yes};
  using Metrics = MetricList<loss>;
  toy::Tensor p = toy::Tensor::parameter(0.5);
  std::function<bool()> fails = nullptr;
  toy::Tensor training_step(std::vector<int> const& batch, auto& ctx) {
    if (fails && fails()) throw std::runtime_error("a step failed");
    auto value = p * toy::Tensor(batch.front() + 0.25 * batch.back());
    ctx.log(loss, value);
    return value;
  }
  toy::Sgd configure_optimizers() { return {.params = {p}, .rate = 0.125, .momentum = 0.5}; }
};

/// Notes events and rows, and does something in the batch's end hook.
struct Hears {
  using Stateless = ByChoice;
  std::vector<std::string>* heard;
  std::function<void(long)> at_end = nullptr;  ///< of the steps so far
  void on_train_epoch_start(auto& ctx) { heard->push_back("epoch " + std::to_string(ctx.current_epoch())); }
  void on_train_batch_start(auto& ctx) { heard->push_back("batch " + std::to_string(ctx.batch_idx())); }
  void on_train_batch_end(auto& ctx) {
    heard->push_back("end " + std::to_string(ctx.batch_idx()) + " steps " + std::to_string(ctx.global_step()));
    if (at_end) at_end(ctx.global_step());
  }
  void log_metrics(std::span<Scalar const> cells, long x) {
    std::string row = "row " + std::to_string(x);
    for (auto const& cell : cells) row += " " + std::string(cell.name) + " " + std::to_string(cell.value);
    heard->push_back(row);
  }
};

std::vector<int> const numbers{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13};
auto shuffled() { return data::Loader{numbers, {.batch_size = 2, .shuffle = true, .seed = 5}}; }

struct Fit {
  std::vector<std::string> heard = {};
  double end = 0;
};
/// A fit of two epochs of seven batches; in `at_end` the trainer can be used.
template <class AtEnd>
Fit run(Folder const& folder, int window, Net model, std::optional<CkptPath> const& from, AtEnd&& at_end) {
  Fit fit;
  std::function<void(long)> act;
  auto trainer = make_trainer<Net>(quick(2), SavingDevice{}, Float32{}, Automatic{.accumulate_grad_batches = window},
                                   OnExceptionCheckpoint{{.dirpath = folder.path}}, Hears{&fit.heard, [&](long steps) {
                                                                                            if (act) act(steps);
                                                                                          }});
  act = [&](long steps) { at_end(trainer, steps, fit.heard); };
  auto loader = shuffled();
  said([&] {
    try {
      trainer.fit(model, loader, from);
    } catch (std::runtime_error const&) { fit.heard.push_back("stopped"); }
  });
  fit.end = model.p.value();
  return fit;
}
auto const nothing = [](auto&, long, auto&) {};

std::vector<std::string> after(std::vector<std::string> const& all, std::size_t first) {
  return {all.begin() + static_cast<std::ptrdiff_t>(first), all.end()};
}

}  // namespace

TEST_CASE("resume: a file that save_checkpoint writes while end hooks are told goes on after them, in any window") {
  for (int const window : {1, 2, 3}) {
    CAPTURE(window);
    Folder const folder;
    std::vector<std::size_t> places;
    auto const whole = run(folder, window, {}, std::nullopt, [&](auto& trainer, long, auto& heard) {
      trainer.save_checkpoint(folder / std::to_string(places.size()));
      places.push_back(heard.size());
    });
    REQUIRE(places.size() == 14);
    for (std::size_t file = 0; file != places.size(); ++file) {
      CAPTURE(file);
      auto const now = run(folder, window, {}, CkptPath{folder / std::to_string(file)}, nothing);
      CHECK(now.heard == after(whole.heard, places[file]));
      CHECK(now.end == whole.end);
    }
  }
}

TEST_CASE("resume: an end hook that fails after a step hears of it again, and the step is not made twice") {
  for (int const window : {1, 3}) {
    Folder const other;
    auto const whole = run(other, window, {}, std::nullopt, nothing);
    for (int place = 0; place != 14; ++place) {
      CAPTURE(window, place);
      Folder const folder;
      int left = place;
      auto const stopped = run(folder, window, {}, std::nullopt, [&](auto&, long, auto&) {
        if (left-- == 0) throw std::runtime_error("a hook failed");
      });
      REQUIRE(stopped.heard.back() == "stopped");
      auto const now = run(folder, window, {}, CkptPath{folder / "on_exception.safetensors"}, nothing);
      CHECK(now.heard == after(whole.heard, stopped.heard.size() - 2));
      CHECK(now.end == whole.end);
    }
  }
}

TEST_CASE("resume: a step that fails in an epoch's first window has that window done again, in the same epoch") {
  Folder const other;
  auto const whole = run(other, 3, {}, std::nullopt, nothing);
  for (int place = 0; place != 14; ++place) {
    CAPTURE(place);
    Folder const folder;
    int left = place;
    Net failing;
    failing.fails = [&] { return left-- == 0; };
    auto const stopped = run(folder, 3, failing, std::nullopt, nothing);
    REQUIRE(stopped.heard.back() == "stopped");
    auto const now = run(folder, 3, {}, CkptPath{folder / "on_exception.safetensors"}, nothing);
    CHECK(now.end == whole.end);
    CHECK(now.heard.front() == "batch " + std::to_string(place % 7 / 3 * 3));  // and no epoch is said to begin
  }
}
