// Metrics that are declared with a definition and counted in training: one value of each epoch, kept by the run.
#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fulgurite/callback/early_stopping.hpp>
#include <fulgurite/metric/formulas.hpp>

#include "models.hpp"
#include "ranks.hpp"
#include "rows.hpp"

using namespace fulgurite;
using toy::Rank;
using toy::Tensor;

namespace {

using Values = std::vector<std::optional<double>>;
using Pairs = std::vector<std::pair<std::string, double>>;

/// The root of the mean square, which is not the mean of the batches' roots. Undefined below `needs` batches.
struct Rms {
  double needs = 0;
  static constexpr std::size_t sums() { return 2; }
  std::vector<double> tally(double value) const { return {value * value, 1}; }
  double compute(std::span<double const> sums) const {
    if (sums[1] < needs) throw Error("fulgurite.metric.one_class", "too few");
    if (std::isnan(sums[0])) throw Error("fulgurite.metric.labels", "a label is none");
    return std::sqrt(sums[0] / sums[1]);
  }
};
double rms(std::vector<double> const& values) {
  double sum = 0;
  for (double const value : values) sum += value * value;
  return std::sqrt(sum / static_cast<double>(values.size()));
}

/// Where a Net counts: in its step, as it should; in the hooks around a batch; or before an epoch has any batch.
enum class Counts { in_step, in_hooks, too_early };
/// Counts what it is given, times the epoch's number from 1.
struct Net : toy::P {
  static constexpr Metric<"train/rms", Rms> seen_rms{};
  static constexpr Metric<"val/rms", Rms> val_rms{};
  using Metrics = MetricList<toy::P::loss, seen_rms, val_rms>;
  Counts counts = Counts::in_step;
  Values after_batch = {}, in_validation = {}, at_end = {};
  void on_train_epoch_start(auto& ctx) {
    if (counts == Counts::too_early) ctx.update(seen_rms, 1.0);
  }
  void on_train_batch_start(auto& ctx) {
    if (counts == Counts::in_hooks) ctx.update(seen_rms, 1.0);
  }
  Tensor training_step(double batch, auto& ctx) {
    if (counts == Counts::in_step) ctx.update(seen_rms, batch * (ctx.current_epoch() + 1));
    return -p;
  }
  void on_train_batch_end(auto& ctx) {
    if (counts == Counts::in_hooks) ctx.update(seen_rms, 3.0);
    after_batch.push_back(ctx.value(seen_rms));
  }
  void validation_step(double batch, auto& ctx) { ctx.update(val_rms, batch); }
  void on_validation_epoch_end(auto& ctx) {
    if (!ctx.sanity_checking()) in_validation.push_back(ctx.value(seen_rms));
  }
  void on_train_epoch_end(auto& ctx) { at_end.push_back(ctx.value(seen_rms)); }
};

/// Asks for a file wherever it can be asked for one, if there is a list for their names.
struct Saves {
  using Stateless = ByChoice;
  static constexpr Order order = Order::checkpoint;
  std::vector<std::string>* files = nullptr;
  void on_train_batch_start(auto& ctx) { ask(ctx); }
  void on_train_batch_end(auto& ctx) { ask(ctx); }
  void on_train_epoch_end(auto& ctx) { ask(ctx); }
  void on_train_end(auto& ctx) { ask(ctx); }
  void ask(auto& ctx) {
    if (!files) return;
    files->push_back("cut" + std::to_string(files->size()));
    ctx.request_checkpoint(files->back());
  }
};
/// What most tests train a Net with: one type of trainer and of data, since each takes long to compile.
auto train(TrainerOptions options, Automatic how = {}, Saves saves = {}) {
  return toy::train<Net>(std::move(options), how, toy::Rows{}, saves);
}
std::vector<double> const four = {1, 2, 3, 4}, three_four = {3, 4};
void fit(auto& trainer, Net& net, std::vector<double> const& batches, std::optional<CkptPath> const& from = {}) {
  trainer.fit(net, batches, three_four, from);
}

/// What rows have of names that begin with "train/".
Pairs trained(std::vector<toy::Row> const& rows) {
  Pairs all;
  for (auto const& row : rows)
    for (auto const& cell : row.cells)
      if (cell.first.starts_with("train/")) all.push_back(cell);
  return all;
}

double const whole = rms(four);

}  // namespace

TEST_CASE("a declared metric is counted in training: anew in each epoch, one value of it, in the epoch's row") {
  Net net;
  auto trainer = train({.max_epochs = 2, .log_every_n_steps = 1});
  fit(trainer, net, four);
  CHECK(net.at_end == Values{whole, 2 * whole});
  CHECK(trainer.value(Net::seen_rms) == 2 * whole);
  CHECK(trainer.value(Net::val_rms) == std::sqrt(12.5));
  auto const& rows = trainer.template callback<toy::Rows>().rows;
  CHECK(trained(rows) == Pairs{{"train/rms", whole}, {"train/rms", 2 * whole}});
  CHECK(rows.back().x == 7);
  // Inside an epoch it is the value so far.
  REQUIRE(net.after_batch.size() == 8);
  CHECK((net.after_batch[0] == 1 && net.after_batch[1] == rms({1, 2}) && net.after_batch[3] == whole));
  CHECK((net.after_batch[4] == 2 && net.after_batch[7] == 2 * whole));
}

namespace {

struct Skips : Net {
  std::optional<Tensor> training_step(double batch, auto& ctx) {
    ctx.update(seen_rms, batch);
    return batch == 2 ? std::nullopt : std::optional(-p);
  }
};

struct Driven : Net {
  void training_step(double batch, auto& ctx) {
    ctx.update(seen_rms, batch);
    auto& [optimizer] = ctx.optimizers();
    ctx.minimize(optimizer, -p);
  }
};

struct Sliced {
  using Hidden = Tensor;
  struct Output {
    Tensor loss, hidden;
  };
  using Metrics = MetricList<Net::seen_rms>;
  Tensor p = Tensor::parameter(1.0);
  Output training_step(std::vector<double> const& slice, std::optional<Hidden> const&, auto& ctx) {
    for (double const one : slice) ctx.update(Net::seen_rms, one);
    return {-p, p};
  }
  toy::Sgd configure_optimizers() { return {.params = {p}}; }
};

}  // namespace

TEST_CASE("each batch of training is counted once: in windows, in skipped steps, in slices, in hooks, by hand") {
  Net net;
  auto trainer = train({.max_epochs = 1}, {.accumulate_grad_batches = 3});
  fit(trainer, net, four);
  CHECK(trainer.value(Net::seen_rms) == whole);

  Skips skips;
  auto skipping = toy::train<Skips>({.max_epochs = 1}, {});
  skipping.fit(skips, four, NoValidation{});
  CHECK(skipping.value(Net::seen_rms) == whole);  // as what is logged there

  Net hooks;
  hooks.counts = Counts::in_hooks;
  auto hooked = train({.max_epochs = 1});
  fit(hooked, hooks, four);
  CHECK(hooked.value(Net::seen_rms) == std::sqrt(5.0));

  Driven driven;
  auto driving = make_trainer<Driven>({.max_epochs = 1}, toy::Device{}, Float32{}, Manual{});
  driving.fit(driven, four, NoValidation{});
  CHECK(driving.value(Net::seen_rms) == whole);

  Sliced sliced;
  auto slicing = toy::train<Sliced>({.max_epochs = 1}, {.tbptt = 3});
  slicing.fit(sliced, std::vector<std::vector<double>>{four});
  CHECK(slicing.value(Net::seen_rms) == whole);
}

namespace {

struct Repeats : Net {
  int evaluations = 0;
  Tensor training_step(double, auto& ctx) {
    ctx.update(seen_rms, double(++evaluations));
    return -p;
  }
  toy::Repeating configure_optimizers() {
    toy::Repeating optimizer;
    optimizer.params = {p};
    return optimizer;
  }
};

}  // namespace

TEST_CASE("where a closure is evaluated several times in a step, its last evaluation is what was counted") {
  Repeats net;
  auto trainer = toy::train<Repeats>({.max_epochs = 1}, {});
  trainer.fit(net, toy::batches(3), NoValidation{});
  CHECK(trainer.value(Net::seen_rms) == rms({4, 8, 12}));
}

TEST_CASE("callbacks watch what training counts: at its epochs' ends, and in a validation inside of one") {
  Net net;
  auto trainer = toy::train<Net>({.max_epochs = 9}, {}, EarlyStopping{Net::seen_rms, {.patience = 2}});
  trainer.fit(net, four, NoValidation{});
  CHECK(net.at_end.size() == 3);  // the best epoch and two more

  Net looks;
  auto looking = train({.max_epochs = 1, .val_check_interval = Fraction{0.5}, .num_sanity_val_steps = 0});
  fit(looking, looks, four);
  CHECK(looks.in_validation == Values{rms({1, 2}), whole});
}

namespace {

struct Extremes {
  static constexpr Reduce reduce = Reduce::max;
  static constexpr std::size_t sums() { return 2; }
  std::vector<double> tally(double value) const { return {-value, value}; }
  metric::Range compute(std::span<double const> sums) const { return metric::MinMax::compute(sums); }
  template <class F>
  void each(metric::Range const& range, F&& f) const {
    metric::MinMax::each(range, f);
  }
};

struct Several : toy::P {
  static constexpr Metric<"train/x", Extremes> x{};
  static constexpr Metric<"train/needs", Rms> needs{.how = {.needs = 5}};
  using Metrics = MetricList<x, needs>;
  Tensor training_step(double batch, auto& ctx) {
    ctx.update(x, batch);
    ctx.update(needs, batch);
    return -p;
  }
};

}  // namespace

TEST_CASE("a metric of several numbers has a row of each epoch of training; too few samples are a warning") {
  Several net;
  auto trainer = toy::train<Several>({.max_epochs = 1, .log_every_n_steps = 1}, {}, toy::Rows{});
  trainer.fit(net, four);
  CHECK(trained(trainer.template callback<toy::Rows>().rows) == Pairs{{"train/x.min", 1}, {"train/x.max", 4}});
  CHECK(!trainer.value(Several::needs));
  REQUIRE(trainer.warnings().size() == 1);
  CHECK(trainer.warnings()[0].find("[fulgurite.metric.undefined] train/needs has no value in epoch 0") !=
        std::string::npos);
}

TEST_CASE("what cannot be counted in training is an Error: outside of a batch, and a label that is none") {
  auto const refused = [](Counts counts, std::vector<double> const& batches) {
    Net net;
    net.counts = counts;
    auto trainer = train({.max_epochs = 1});
    return toy::refusal([&] { fit(trainer, net, batches); });
  };
  CHECK(refused(Counts::too_early, four) == "fulgurite.metric.no_batch");
  CHECK(refused(Counts::in_step, {std::nan("")}) == "fulgurite.metric.labels");
}

namespace {

Values ends_of(std::optional<long> max_steps, int window, std::vector<std::string>* files, std::string const& from) {
  Net net;
  auto trainer = train({.max_epochs = 3, .max_steps = max_steps}, {.accumulate_grad_batches = window}, {files});
  auto const file = from.empty() ? std::nullopt : std::optional(CkptPath{from});
  if (window == 1) trainer.fit(net, four, NoValidation{}, file);
  else fit(trainer, net, four, file);
  return net.at_end;
}

}  // namespace

TEST_CASE("a fit that is stopped anywhere goes on with what its epoch has counted so far") {
  Values const unbroken{whole, 2 * whole, 3 * whole};
  for (int const window : {1, 3}) {
    std::vector<std::string> files;
    CHECK(ends_of(std::nullopt, window, &files, "") == unbroken);
    CHECK(files.size() == 3 * 9 + 1);
    for (auto const& file : files) {
      auto const ends = ends_of(std::nullopt, window, nullptr, file);
      INFO(file << " of windows of " << window);
      CHECK(Values(unbroken.end() - static_cast<long>(ends.size()), unbroken.end()) == ends);
    }
    // Cut short by max_steps, and gone on with beyond it.
    for (long most = 1; most != 6; ++most) {
      std::vector<std::string> cut;
      ends_of(most, window, &cut, "");
      for (auto const& file : cut) {
        auto const ends = ends_of(std::nullopt, window, nullptr, file);
        INFO(file << " after " << most << " steps in windows of " << window);
        CHECK(Values(unbroken.end() - static_cast<long>(ends.size()), unbroken.end()) == ends);
      }
    }
  }
}

namespace {

/// Logs what it counts, too.
struct Logging : Net {
  static constexpr Metric<"mean"> mean{.on_epoch = Report::yes};
  using Metrics = MetricList<toy::P::loss, seen_rms, val_rms, mean>;
  Tensor training_step(double batch, auto& ctx) {
    ctx.update(seen_rms, batch);
    ctx.log(mean, batch);
    return -p;
  }
};

}  // namespace

TEST_CASE("ranks: what training counts is over the samples of all, and files hold that for as many ranks") {
  struct Of {
    std::optional<double> rms, mean;
    Values ends;
    bool operator==(Of const&) const = default;
  };
  auto const fit = [](Rank rank, std::vector<double> samples, std::optional<long> most, std::optional<CkptPath> from) {
    Logging net;
    auto trainer = make_trainer<Logging>({.max_epochs = 1, .max_steps = most}, rank, Float32{}, Automatic{},
                                         toy::Influence{[=](std::string_view where, auto& ctx) {
                                           if (from) return;
                                           if (where == "on_train_batch_end" && ctx.batch_idx() == 1)
                                             ctx.request_checkpoint("inside");
                                           if (where == "on_train_epoch_end") ctx.request_checkpoint("after");
                                         }});
    trainer.fit(net, toy::OwnPart<double>{std::move(samples)}, NoValidation{}, from);
    return Of{trainer.value(Net::seen_rms), trainer.value(Logging::mean), net.at_end};
  };
  double const of_all = rms({1, 2, 3, 4, 5, 6, 7, 8});
  auto const check = [](auto const& ranks, Of const& wanted) {
    for (auto const& one : ranks) {
      REQUIRE(one.error == "");
      CHECK(*one.result == wanted);
    }
  };
  Of const whole_epoch{of_all, 4.5, {of_all}};
  auto const of_two = [](Rank const& rank) {
    return rank.rank() == 0 ? std::vector<double>{1, 2, 3, 4} : std::vector<double>{5, 6, 7, 8};
  };
  check(toy::on_ranks(2, [&](Rank rank) { return fit(rank, of_two(rank), std::nullopt, std::nullopt); }), whole_epoch);
  auto const go_on = [&](std::string const& file) {
    auto const files = toy::world.files;
    check(toy::on_ranks(2, [&](Rank rank) { return fit(rank, of_two(rank), std::nullopt, CkptPath{file}); }),
          whole_epoch);
    toy::world.files = files;
    for (auto const& one :
         toy::on_ranks(1, [&](Rank rank) { return fit(rank, {0, 0, 3, 4, 7, 8}, std::nullopt, CkptPath{file}); }))
      CHECK(one.error.starts_with("[fulgurite.resume.ranks]"));
    toy::world.files = files;
  };
  go_on("inside");
  double const half = rms({1, 2, 5, 6});
  check(toy::on_ranks(2, [&](Rank rank) { return fit(rank, of_two(rank), 2, std::nullopt); }), {half, 3.5, {half}});
  go_on("after");
}
