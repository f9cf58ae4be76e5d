// A validation that a signal or an exception ends in its middle is run again when the fit resumes: with the random
// numbers, the loaders' positions and the states that it began with, so that the rest is that of the unbroken run.
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <csignal>
#include <functional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include <fulgurite/callback/signals.hpp>

#include "callback_stderr.hpp"
#include "models.hpp"
#include "reference/show.hpp"

using namespace fulgurite;

namespace redone {

/// What happens at the validation batch of that number, counted over the whole fit; -1: nothing.
struct Break {
  long at = -1;
  enum class By { sigterm, exception, save } by = By::sigterm;
  long seen = 0;
  bool here() { return seen++ == at; }
};
Break* broken = nullptr;

/// Draws in training and in validation; counts what it has validated.
struct Noisy {
  static constexpr Metric<"t"> t{};
  static constexpr Metric<"v"> v{};
  using Metrics = MetricList<t, v>;
  toy::Tensor p = toy::Tensor::parameter(0.5);
  long validated = 0;
  toy::Tensor training_step(double batch, auto& ctx) {
    auto loss = p * toy::Tensor(batch + toy::draw());
    ctx.log(t, loss);
    return loss;
  }
  void validation_step(double batch, auto& ctx) {
    ++validated;
    ctx.log(v, p.value() * (batch + toy::draw()));
  }
  void state(auto& archive) { archive("validated", validated); }
  toy::Sgd configure_optimizers() { return {.params = {p}, .rate = 0.125, .momentum = 0.5}; }
};

/// Counts the events of validations, and posts a row for each batch.
struct Counts {
  long starts = 0, batches = 0, ends = 0, sum = 0;
  void on_validation_start(auto& ctx) { starts += !ctx.sanity_checking(); }
  void on_validation_batch_start(auto& ctx) {
    if (ctx.sanity_checking()) return;
    ++batches;
    sum = 3 * sum + ctx.batch_idx();
    ctx.log_scalars(std::vector<Scalar>{{"batches", static_cast<double>(batches)}});
  }
  void on_validation_end(auto& ctx) { ends += !ctx.sanity_checking(); }
  void state(auto& archive) { archive("starts", starts)("batches", batches)("ends", ends)("sum", sum); }
};

/// Ends the fit in the middle of a validation, or saves a file there.
struct Breaks {
  using Stateless = ByChoice;
  static constexpr Order order = Order::checkpoint;
  std::function<void(std::string const&)> save;
  void on_validation_batch_end(auto& ctx) {
    if (ctx.sanity_checking() || !broken->here()) return;
    if (broken->by == Break::By::sigterm) std::raise(SIGTERM);
    else if (broken->by == Break::By::exception) throw Error("fulgurite.test.validation", "a validation failed");
    else save("in/saved");
  }
};

/// A logger that can drop its last rows when a fit resumes, as those of the library do.
struct Rows {
  static constexpr bool is_logger = true;
  std::vector<std::string>* rows;
  long again = 0;
  void log_metrics(std::span<Scalar const> cells, long x) {
    std::string line = std::to_string(x);
    for (auto const& cell : cells) line += " " + std::string(cell.name) + "=" + reference::text(cell.value);
    rows->push_back(line);
  }
  void before_save(auto&) {}
  void expect_again(long last) { again = last; }
  void state(auto& archive) {
    long count = static_cast<long>(rows->size()) - again;
    archive("count", count);
    if (archive.loading) rows->resize(static_cast<std::size_t>(count));
  }
};

/// Each pass has two batches that tell which pass it is; a pass that was left in its middle is continued.
struct Placed {
  long passes = 0, left = 0;
  struct Iterator {
    using difference_type = std::ptrdiff_t;
    using value_type = double;
    Placed* of;
    double operator*() const { return static_cast<double>(2 * of->passes + of->left); }
    Iterator& operator++() { return --of->left, *this; }
    void operator++(int) { --of->left; }
    bool operator==(std::default_sentinel_t) const { return of->left == 0; }
  };
  Iterator begin() {
    if (left == 0) ++passes, left = 2;
    return {this};
  }
  std::default_sentinel_t end() const { return {}; }
  void state(auto& archive) { archive("passes", passes)("left", left); }
};

/// Makes its loaders in every epoch, and counts how often.
struct Made {
  long made = 0;
  std::vector<double> train_dataloader() { return toy::batches(4); }
  std::vector<double> val_dataloader() { return ++made, toy::batches(3); }
  void state(auto& archive) { archive("made", made); }
};

TrainerOptions::Clock::time_point still() { return {}; }
struct How {
  TrainerOptions options{.max_epochs = 2, .num_sanity_val_steps = 0, .log_every_n_steps = 1, .now = &still};
  int window = 1;
  std::function<Placed()> placed = nullptr;
};

/// The end of a fit: all that a file of it holds, weights, random numbers and rows.
template <class Data>
std::string end_of(How const& how, Break breaks, std::vector<std::string>& rows, Data&& make,
                   std::string const& from = "") {
  broken = &breaks;
  toy::world.rng = 7;
  if (from.empty()) rows.clear();
  Noisy model;
  std::function<void(std::string const&)> save;
  auto trainer =
      make_trainer<Noisy>(how.options, toy::Device{}, Float32{}, Automatic{.accumulate_grad_batches = how.window},
                          Counts{}, Rows{&rows}, Breaks{[&](std::string const& file) { save(file); }},
                          OnExceptionCheckpoint{{.dirpath = "in"}}, Signals{{.dirpath = "in"}});
  save = [&](std::string const& file) { trainer.save_checkpoint(file); };
  auto data = make();
  try {
    if (from.empty()) std::apply([&](auto&... all) { trainer.fit(model, all...); }, data);
    else std::apply([&](auto&... all) { trainer.fit(model, all..., CkptPath{from}); }, data);
  } catch (std::exception const&) { return {}; }
  trainer.save_checkpoint("in/end");
  std::string all = toy::world.files["in/end"].state + " weights " + reference::text(model.p.value()) + " rows";
  for (auto const& row : rows) all += "\n" + row;
  return all;
}

/// From each file that a validation leaves when it is ended in its middle, a fit leads to the end of the unbroken one.
template <class Data>
void check(std::string const& name, How const& how, Data&& make, long at_least) {
  long broken_off = 0;
  std::vector<std::string> rows;
  auto const whole = end_of(how, {}, rows, make);
  for (auto const by : {Break::By::sigterm, Break::By::exception, Break::By::save})
    for (long at = 0; at != 100; ++at) {
      toy::world.files.clear();
      Break const breaks{at, by};
      auto const ended = end_of(how, breaks, rows, make);
      std::string const begins = by == Break::By::sigterm     ? "in/interrupted"
                                 : by == Break::By::exception ? "in/on_exception"
                                                              : "in/saved";
      std::string file;
      for (auto const& [path, saved] : toy::world.files)
        if (path.string().starts_with(begins)) file = path.string();
      if (file.empty()) break;
      ++broken_off;
      if (by == Break::By::save) CHECK(ended == whole);
      auto const resumed = end_of(how, {}, rows, make, file);
      if (resumed == whole) continue;
      auto const parts = std::mismatch(whole.begin(), whole.end(), resumed.begin(), resumed.end());
      auto const from = static_cast<std::size_t>(std::max<std::ptrdiff_t>(0, parts.first - whole.begin() - 100));
      FAIL_CHECK(name << ", " << static_cast<int>(by) << " in validation batch " << at << ": "
                      << resumed.substr(from, 300) << "\n  instead of " << whole.substr(from, 300));
      return;
    }
  INFO(name);
  CHECK(broken_off >= at_least);
}

}  // namespace redone

TEST_CASE("a validation that is ended in its middle is run again as it would have been: in the middle of an epoch, at "
          "its end, inside a window, over several loaders") {
  using namespace redone;
  said([] {
    toy::Restored<std::uint64_t> const random(toy::world.rng);
    auto const plain = [] { return std::tuple(toy::batches(4), toy::batches(2)); };
    How how;
    check("at the end", how, plain, 12);
    how.options.val_check_interval = 2;
    check("in the middle", how, plain, 24);
    how.window = 3;
    check("inside a window", how, plain, 24);
    check(
        "several loaders", how,
        [] { return std::tuple(toy::batches(4), std::tuple(toy::batches(2), toy::batches(1))); }, 36);
    how.options.num_sanity_val_steps = 1;
    check("after a sanity check", how, plain, 24);
  });
}

TEST_CASE("a validation that is ended in its middle: loaders begin again where they were, and are made again") {
  using namespace redone;
  said([] {
    toy::Restored<std::uint64_t> const random(toy::world.rng);
    How how;
    how.options.val_check_interval = 2;
    check(
        "a loader that saves its position", how,
        [] { return std::tuple(toy::batches(4), std::tuple(Placed{}, toy::batches(1), Placed{5, 0})); }, 60);
    how.options.reload_dataloaders_every_n_epochs = 1;
    check("loaders that are made every epoch", how, [] { return std::tuple(Made{}); }, 36);
  });
}
