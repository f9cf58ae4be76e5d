// Steps that are tried out and put back: whatever they were, and however they end.
#include <fulgurite/tuner/rehearse.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <csignal>
#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include <fulgurite/callback/model_checkpoint.hpp>
#include <fulgurite/callback/progress_bar.hpp>
#include <fulgurite/callback/signals.hpp>

#include "models.hpp"
#include "recording.hpp"
#include "rows.hpp"

using namespace fulgurite;

namespace {

/// Draws in each step; momentum and a schedule make each step depend on all before it.
struct Draws {
  static constexpr Metric<"loss"> loss{};
  using Metrics = MetricList<loss>;
  toy::Tensor p = toy::Tensor::parameter(1.0), q = toy::Tensor::parameter(0.5), seen = toy::Tensor(0.0);
  long steps = 0;
  std::function<void(long)> act = nullptr;
  std::vector<toy::Tensor> parameters() const { return {p, q}; }
  std::vector<toy::Tensor> buffers() const { return {seen}; }
  toy::Tensor training_step(double batch, auto& ctx) {
    if (act) act(steps);
    ++steps;
    seen.set(seen.value() + batch);
    auto value = p * p * toy::Tensor(0.01 * (batch + toy::draw())) + q * p * toy::Tensor(0.01);
    ctx.log(loss, value);
    return value;
  }
  auto configure_optimizers() {
    return scheduled(
        toy::Sgd{.params = {p, q}, .rate = 0.1, .momentum = 0.9},
        [](long n) { return 1.0 / (1.0 + static_cast<double>(n)); }, ScheduleOptions{.interval = Interval::step});
  }
  void state(auto& archive) { archive("steps", steps); }
};

/// Shuffled anew in each pass, by the library's generator.
class Shuffled {
 public:
  explicit Shuffled(int n) : n_(n) {}
  auto begin() {
    if (at_ == 0) shuffle();
    return Iterator{this};
  }
  std::default_sentinel_t end() const { return {}; }

 protected:
  struct Iterator {
    Shuffled* of;
    double operator*() const { return of->batches_[of->at_]; }
    Iterator& operator++() {
      ++of->at_;
      return *this;
    }
    bool operator!=(std::default_sentinel_t) const {
      if (of->at_ != of->batches_.size()) return true;
      of->at_ = 0;
      return false;
    }
  };
  void shuffle() {
    batches_.clear();
    ++passes_;
    for (int i = 0; i != n_; ++i) batches_.push_back(toy::draw() + static_cast<double>(passes_));
  }
  int n_;
  std::size_t at_ = 0;
  long passes_ = 0;
  std::vector<double> batches_{};
};
/// How far it is it says by itself.
struct Keeping : Shuffled {
  using Shuffled::Shuffled;
  void state(auto& archive) { archive("at", at_)("batches", batches_)("passes", passes_); }
};
/// It is told where its next pass begins.
struct Jumping : Shuffled {
  using Shuffled::Shuffled;
  std::size_t from = 0;
  auto begin() {
    shuffle();
    at_ = std::exchange(from, 0);
    return Iterator{this};
  }
  void set_epoch(long epoch) { passes_ = epoch; }
  void resume_at(long batch) { from = static_cast<std::size_t>(batch); }
};

/// Asks for searches in these epochs; -1: when the fit starts.
struct Tries {
  using Stateless = ByChoice;
  static constexpr bool searches = true;
  static constexpr Order order = Order::tuner;
  std::vector<int> epochs = {};
  RehearsalPlan plan = {};
  void on_fit_start(auto& ctx) { ask(-1, ctx); }
  void on_train_epoch_start(auto& ctx) { ask(ctx.current_epoch(), ctx); }
  void ask(int epoch, auto& ctx) {
    if (std::find(epochs.begin(), epochs.end(), epoch) == epochs.end()) return;
    ctx.request_search([this](auto& rehearser) { rehearser.rehearse(plan); });
  }
};

/// A state that changes with each event that it hears.
struct Hears {
  long batches = 0, epochs = 0, setups = 0;
  void setup(auto&) { ++setups; }
  void on_train_batch_end(auto&) { ++batches; }
  void on_train_epoch_end(auto&) { ++epochs; }
  void state(auto& archive) { archive("batches", batches)("epochs", epochs)("setups", setups); }
};

TrainerOptions::Clock::time_point stopped() { return {}; }
TrainerOptions options(int epochs) { return {.max_epochs = epochs, .log_every_n_steps = 1, .now = &stopped}; }

/// All bits that a file of now would hold, and those that none holds.
template <class Trainer>
std::string bits(Trainer& trainer, Draws const& model) {
  trainer.save_checkpoint("now");
  auto const file = toy::world.files.extract("now").mapped();
  toy::world.saved.clear();
  auto text = file.state;
  for (double const weight : file.weights) text += " " + std::to_string(std::bit_cast<std::uint64_t>(weight));
  for (auto const& p : model.parameters())
    text += p.has_grad() ? " " + std::to_string(std::bit_cast<std::uint64_t>(p.grad())) : " none";
  return text + " " + std::to_string(model.seen.value()) + " " + std::to_string(toy::world.rng);
}

struct Came {
  std::string bits;
  std::vector<toy::Row> rows;
  long files;
  bool operator==(Came const&) const = default;
};
/// Two fits of a trainer, with `between` between them, from the same random numbers.
template <class Loader, class F>
Came came(Tries tries, Automatic how, F&& between) {
  toy::world = {};
  Draws model;
  Loader loader(5);
  auto trainer = toy::train<Draws>(options(2), how, toy::Rows{}, std::move(tries), Hears{},
                                   ModelCheckpoint{{.dirpath = "folder", .every_n_train_steps = 2}});
  between(trainer, model, loader);
  trainer.fit(model, loader);
  between(trainer, model, loader);
  trainer.set_options(options(4));
  trainer.fit(model, loader);
  auto const files = static_cast<long>(toy::world.saved.size());
  return {bits(trainer, model), trainer.template callback<toy::Rows>().rows, files};
}
auto const nothing = [](auto&...) {};

template <class Loader>
void leaves_no_trace() {
  Automatic const how{.accumulate_grad_batches = GENERATE(1, 2), .clip = ClipNorm{0.5}};
  auto const never = came<Loader>({}, how, nothing);
  REQUIRE(never.files != 0);
  long steps = 0;
  RehearsalPlan const plan{
      .steps = 4, .schedules = GENERATE(false, true), .after_step = [&](RehearsedStep&) { ++steps; }};
  CHECK(came<Loader>({{-1}, plan}, how, nothing) == never);
  CHECK(steps == 8);  // both fits
  CHECK(came<Loader>({{0, 1, 3}, plan}, how, nothing) == never);
  CHECK(came<Loader>({}, how, [&](auto& trainer, auto& model, auto& loader) {
          tune::rehearse(trainer, model, loader, plan);
        }) == never);
}

}  // namespace

TEST_CASE("a run that has rehearsed has the bits, the rows and the files of one that never did") {
  leaves_no_trace<std::vector<double>>();
}
TEST_CASE("the same of a loader that keeps its place") { leaves_no_trace<Keeping>(); }
TEST_CASE("the same of a loader that is told its place") { leaves_no_trace<Jumping>(); }
