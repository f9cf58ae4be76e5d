// Fastest{strategy}: which way of running steps it takes, by a clock of the test's; that all have the same bits;
// resume.

#include "gpu.hpp"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <unistd.h>

using namespace gpu;

namespace {

long calls = 0;
/// A step of the race takes `first` seconds for nine steps, then `later`; two calls are a step.
double time_of(double first, double later) {
  long const call = calls++;
  return call % 2 == 0 ? 0 : call / 2 < 9 ? first : later;
}
double replays_win() { return time_of(3e-6, 2e-6); }
double replays_lose() { return time_of(2e-6, 3e-6); }

struct Seen {
  std::vector<torch::Tensor> weights = {};
  std::string account = {};
  long replayed = 0;
  long calls = 0;
};
template <class Model = Ours, class Strategy>
Seen fitted(Strategy strategy, int epochs, std::optional<CkptPath> from = {},
            std::optional<std::filesystem::path> const& file = {}) {
  auto model = fresh<Model>();
  torch::manual_seed(5);
  calls = 0;
  auto trainer = make_trainer<Model>({.max_epochs = epochs}, strategy, NoDefaults{});
  if (from) trainer.fit(model, batches(30, 8), NoValidation{}, *from);
  else trainer.fit(model, batches(30, 8), NoValidation{});
  if (file) trainer.save_checkpoint(*file);
  Seen seen{.weights = fixtures::copied_weights(model), .calls = calls};
  if constexpr (Strategy::captures) {
    seen.account = trainer.strategy().account().front();
    seen.replayed = strategy.report()->replayed;
  }
  return seen;
}
auto racing(double (*clock)()) { return Fastest{SingleDevice{cpu}, CaptureOptions{}, clock}; }

/// Its step reads a number on the host, so it is never replayed.
struct Reads : Ours {
  torch::Tensor training_step(data::Batch const& batch) {
    return loss_of(batch) * batch.data.abs().max().item<float>();
  }
};

/// While its step runs, a copy of the strategy replays one: a member of a sweep on another thread.
struct Beside : Reads {
  static inline CaptureReport* report = nullptr;
  torch::Tensor training_step(data::Batch const& batch) {
    if (report != nullptr) ++report->replayed;
    return Reads::training_step(batch);
  }
};

}  // namespace

TEST_CASE(
    "Fastest takes replays where they are faster, steps as they are written where these are, with the same bits") {
  auto const written = fitted(SingleDevice{cpu}, 2);
  auto const won = fitted(racing(&replays_win), 2), lost = fitted(racing(&replays_lose), 2);
  CHECK(same(won.weights, written.weights));
  CHECK(same(lost.weights, written.weights));
  CHECK(won.account == "Fastest: steps run captured (a replay: 2 us, a step as it is written: 3 us)");
  CHECK(lost.account == "Fastest: steps run as they are written (a replay: 3 us, a step as it is written: 2 us)");
  CHECK(won.replayed > 30);
  CHECK(lost.replayed == 9);
  CHECK(std::max(won.calls, lost.calls) < 60);  // two a step: nothing is measured after the choice
}

TEST_CASE("Fastest runs steps that cannot be replayed as they are written") {
  auto const seen = fitted<Reads>(racing(&replays_win), 4);
  CHECK(seen.account ==
        "Fastest: steps run as they are written (a replay: not measured, a step as it is written: 3 us)");
  CHECK(seen.replayed == 0);
  CHECK(same(seen.weights, fitted<Reads>(SingleDevice{cpu}, 4).weights));
}

TEST_CASE("Fastest takes no replay of a copy for its own") {
  auto strategy = racing(&replays_win);
  Beside::report = std::const_pointer_cast<CaptureReport>(strategy.report()).get();
  auto const seen = fitted<Beside>(strategy, 4);
  Beside::report = nullptr;
  CHECK(seen.account ==
        "Fastest: steps run as they are written (a replay: not measured, a step as it is written: 3 us)");
}

TEST_CASE("a fit with Fastest that goes on from a file keeps the choice of the file, and its bits") {
  auto const path = std::filesystem::temp_directory_path() / ("fulgurite_fastest_" + std::to_string(::getpid()));
  auto const whole = fitted(SingleDevice{cpu}, 3).weights;
  fitted(racing(&replays_win), 1, {}, path);
  auto const resumed = fitted(racing(&replays_lose), 3, CkptPath{path});
  CHECK(same(resumed.weights, whole));
  CHECK(resumed.calls == 0);
  CHECK(resumed.replayed > 30);

  fitted(SingleDevice{cpu}, 1, {}, path);
  auto const other = fitted(racing(&replays_lose), 3, CkptPath{path});
  CHECK(same(other.weights, whole));
  CHECK(other.calls > 0);
  fitted(racing(&replays_win), 1, {}, path);
  CHECK(same(fitted(SingleDevice{cpu}, 3, CkptPath{path}).weights, whole));
  std::filesystem::remove(path);
}
