// A fit that a limit or a stop has ended inside an epoch, or at its very end, and what a run that goes on from each of
// its files does: the rest of the unbroken one.
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/callback/early_stopping.hpp>
#include <fulgurite/callback/gradient_accumulation_scheduler.hpp>
#include <fulgurite/callback/model_pruning.hpp>
#include <fulgurite/callback/stochastic_weight_averaging.hpp>
#include <fulgurite/callback/timer.hpp>
#include <fulgurite/callback/weight_averaging.hpp>
#include <fulgurite/data/loader.hpp>
#include <fulgurite/schedule/schedule.hpp>

#include "callback_stderr.hpp"
#include "loop_resume_loaders.hpp"
#include "models.hpp"
#include "reference/show.hpp"

using namespace fulgurite;
using reference::Lines;
using reference::text;
using resumed::number;
using toy::Tensor;

namespace {

Lines heard;
std::vector<std::string> files;
long second = 0;  ///< each batch takes one
TrainerOptions::Clock::time_point ticking() {
  return TrainerOptions::Clock::time_point{} + std::chrono::seconds(second);
}

/// Says what happens to weights, rates and random numbers, batch by batch; asks for a file at each event of training.
struct Tells {
  using Stateless = ByChoice;
  static constexpr Order order = Order::checkpoint;
  bool saves = true;

  void on_train_start(auto&) {
    if (saves) return;
    toy::world.restored = [] {
      heard.clear();
      toy::world.restored = nullptr;
    };
  }
  void on_train_epoch_start(auto& ctx) { tell("epoch_start", ctx); }
  void on_train_batch_start(auto& ctx) { tell("batch_start " + std::to_string(ctx.batch_idx()), ctx); }
  void on_before_optimizer_step(auto& ctx) {
    std::string line = "step";
    ctx.each_optimizer([&](std::size_t, auto& optimizer) {
      for (std::size_t g = 0; g != optimizer.groups(); ++g) line += " rate " + text(optimizer.lr(g));
      for (auto const& p : optimizer.parameters()) line += " gradient " + (p.has_grad() ? text(p.grad()) : "none");
    });
    say(line, ctx);
  }
  void on_train_batch_end(auto& ctx) {
    ++second;
    tell("batch_end " + std::to_string(ctx.batch_idx()), ctx);
  }
  void on_validation_end(auto& ctx) { tell("validation_end", ctx); }
  void on_train_epoch_end(auto& ctx) { tell("epoch_end", ctx); }
  void on_train_end(auto& ctx) { tell("train_end", ctx); }
  void log_metrics(std::span<Scalar const> cells, long x) {
    std::string line = "row x=" + std::to_string(x);
    for (auto const& cell : cells) line += " " + std::string(cell.name) + "=" + text(cell.value);
    heard.push_back(line);
  }

 private:
  static void say(std::string const& event, auto& ctx) {
    std::string line = event + " of epoch " + std::to_string(ctx.current_epoch()) + " steps " +
                       std::to_string(ctx.global_step()) + " random " + std::to_string(toy::world.rng) + " weights";
    for (auto const& [name, p] : toy::Backend::named_parameters(ctx.model())) line += " " + text(p.value());
    heard.push_back(line);
  }
  void tell(std::string const& event, auto& ctx) {
    say(event, ctx);
    if (!saves || ctx.sanity_checking()) return;
    ctx.request_checkpoint({this, [event, e = ctx.current_epoch()](CheckpointFiles& to) {
                              auto const file = std::to_string(files.size()) + " " + event + " of " + std::to_string(e);
                              to.write(file);
                              files.push_back(file);
                            }});
  }
};

/// Draws in each step, not in validation.
struct Drawn {
  static constexpr Metric<"t"> t{.on_step = Report::yes, .on_epoch = Report::yes};
  static constexpr Metric<"v"> v{};
  using Metrics = MetricList<t, v>;
  Tensor p = Tensor::parameter(0.5);
  Tensor training_step(auto const& batch, auto& ctx) {
    auto loss = p * Tensor(number(batch) + toy::draw());
    ctx.log(t, loss);
    return loss;
  }
  void validation_step(double batch, auto& ctx) { ctx.log(v, p.value() * batch); }
  toy::Sgd configure_optimizers() { return {.params = {p}, .rate = 0.125, .momentum = 0.5}; }
};
struct Stepped : Drawn {
  auto configure_optimizers() {
    return scheduled(Drawn::configure_optimizers(), schedule::Step{1, 0.5}, {.interval = Interval::epoch});
  }
};
struct Followed : Drawn {
  auto configure_optimizers() {
    return scheduled(Drawn::configure_optimizers(), schedule::ReduceOnPlateau{t, {.factor = 0.5, .patience = 0}});
  }
};
/// Two players; one keeps its gradients over three batches, across epochs.
struct Players : Drawn {
  Tensor a = Tensor::parameter(1), b = Tensor::parameter(2);
  long since = 0;
  std::vector<std::pair<std::string, Tensor>> named_parameters() { return {{"p", p}, {"a", a}, {"b", b}}; }
  std::vector<Tensor> parameters() const { return {p, a, b}; }
  void state(auto& archive) { archive("since", since); }
  void training_step(double batch, auto& ctx) {
    auto& [slow, fast] = ctx.optimizers();
    ctx.minimize(fast, b * p * Tensor(toy::draw()));
    {
      auto const only = ctx.toggle(slow);
      auto loss = a * b * Tensor(batch + toy::draw());
      ctx.log(t, loss);
      ctx.backward(loss);
    }
    if (++since % 3 != 0) return;
    ctx.step(slow);
    slow.zero_grad();
  }
  auto configure_optimizers() {
    return optimizers(toy::Sgd{.params = {a}, .rate = 0.125, .momentum = 0.5},
                      toy::Sgd{.params = {b, p}, .rate = 0.0625, .momentum = 0.25});
  }
};
struct Unrolled {
  using Hidden = Tensor;
  struct Output {
    Tensor loss, hidden;
  };
  static constexpr Metric<"t"> t{.on_step = Report::yes, .on_epoch = Report::yes};
  static constexpr Metric<"v"> v{};
  using Metrics = MetricList<t, v>;
  Tensor p = Tensor::parameter(0.5);
  Output training_step(std::vector<double> const& slice, std::optional<Hidden> const& hidden, auto& ctx) {
    Tensor h = hidden.value_or(Tensor(0.25)) * p + p * Tensor(slice.front() + toy::draw());
    ctx.log(t, h);
    return {h, h};
  }
  void validation_step(double batch, auto& ctx) { ctx.log(v, p.value() * batch); }
  toy::Sgd configure_optimizers() { return {.params = {p}, .rate = 0.03125, .momentum = 0.5}; }
};

/// At an epoch's end its hook draws, moves the rate and what the model keeps, and logs. Of two weights one may be
/// masked.
struct Drifts : Drawn {
  static constexpr Metric<"e"> e{};
  using Metrics = MetricList<t, v, e>;
  Tensor a = Tensor::parameter(-2), b = Tensor::parameter(3);
  double kept = 0;
  std::vector<std::pair<std::string, Tensor>> named_parameters() {
    return {{"p", p}, {"a.weight", a}, {"b.weight", b}};
  }
  std::vector<Tensor> parameters() const { return {p, a, b}; }
  void state(auto& archive) { archive("kept", kept); }
  Tensor training_step(double batch, auto& ctx) {
    auto loss = (p + a - b) * Tensor(batch + kept + toy::draw());
    ctx.log(t, loss);
    return loss;
  }
  void on_train_epoch_end(auto& ctx) {
    kept += toy::draw();
    ctx.each_optimizer([](std::size_t, auto& optimizer) { optimizer.set_lr(0, optimizer.lr(0) * 0.5); });
    ctx.log(e, 5.0 + p.value());
  }
  toy::Sgd configure_optimizers() { return {.params = parameters(), .rate = 0.03125, .momentum = 0.5}; }
};
/// Callbacks that do so: one says how often it has heard of an end, one moves weights, one tells of an average.
struct Keeps {
  long ends = 0;
  void on_train_batch_end() { heard.push_back(std::to_string(ends) + " ends"); }
  void on_train_epoch_end() { ++ends; }
  void state(auto& archive) { archive("ends", ends); }
};
struct Shrinks {
  using Stateless = ByChoice;
  static constexpr bool moves_weights = true;
  void on_train_epoch_end(auto& ctx) {
    for (auto& weight : toy::Backend::weights(ctx.model())) weight.set(weight.value() * 0.5);
  }
};
struct Reads {
  using Stateless = ByChoice;
  void on_validation_batch_start(auto& ctx) {
    for (auto const& weight : toy::Backend::weights(ctx.model())) heard.push_back("validated " + text(weight.value()));
  }
};

/// Asks for a stop at an event: of that epoch, or of the batch that so many were over before.
struct Stops {
  using Stateless = ByChoice;
  std::string at;
  long number = -1;
  void on_train_start(auto& ctx) { when("train_start", -1, ctx); }
  void on_train_epoch_start(auto& ctx) { when("epoch_start", ctx.current_epoch(), ctx); }
  void on_train_batch_start(auto& ctx) { when("batch_start", second, ctx); }
  void on_train_batch_end(auto& ctx) { when("batch_end", second, ctx); }
  void on_train_epoch_end(auto& ctx) { when("epoch_end", ctx.current_epoch(), ctx); }

 private:
  void when(std::string const& event, long n, auto& ctx) {
    if (event == at && (number == n || number == -1)) ctx.request_stop();
  }
};

struct How {
  std::optional<long> steps = std::nullopt;
  std::optional<double> time = std::nullopt;
  Stops stops{};
  std::function<void(TrainerOptions&)> more = nullptr;
};
TrainerOptions options(How const& how) {
  TrainerOptions o{.max_epochs = 3, .num_sanity_val_steps = 1, .log_every_n_steps = 2, .now = &ticking};
  o.val_check_interval = 2;
  o.max_steps = how.steps;
  if (how.time) o.max_time = std::chrono::duration<double>(*how.time);
  if (how.more) how.more(o);
  return o;
}

/// fit(how, from): a fit of fresh parts, from a file where one is named.
using Fit = std::function<void(How const&, std::optional<CkptPath> const&)>;  // so that each check is compiled once
Lines trace(Fit const& fit, How const& how, std::string const& from = "") {
  heard.clear();
  toy::world.rng = 7;
  second = 0;
  try {
    fit(how, from.empty() ? std::nullopt : std::optional(CkptPath{from}));
  } catch (Error const& error) { heard.push_back(std::string("Error ") + error.what()); }
  toy::world.restored = nullptr;
  return heard;
}

/// A callback, or a function that makes one.
template <class C>
auto made(C const& callback) {
  if constexpr (std::is_invocable_v<C const&>) return callback();
  else return callback;
}
template <class M, class O, class MakeLoader, class... Cs>
Fit fit_of(O const& optimization, MakeLoader make_loader, Cs const&... callbacks) {
  return [=](How const& how, std::optional<CkptPath> const& from) {
    auto loader = make_loader();
    M model;
    auto trainer = make_trainer<M>(options(how), toy::Device{}, Float32{}, optimization, how.stops, made(callbacks)...,
                                   Tells{.saves = !from});
    trainer.fit(model, loader, toy::batches(2), from);
    toy::world.restored = nullptr;
    auto const& there = trainer.progress();
    heard.push_back("left " + std::to_string(there.epoch) + " epochs " + std::to_string(there.global_step) + " steps " +
                    std::to_string(there.total_batches) + " batches random " + std::to_string(toy::world.rng));
    trainer.save_checkpoint(from ? "after going on" : "after it");
    if (!from) files.push_back("after it");
  };
}

bool says(std::string const& file, std::string const& what) {
  return toy::world.files[file].state.find(what) != std::string::npos;
}
bool is_of_the_end(std::string const& file) { return says(file, "\"point\":{\"at\":7"); }
/// As many of the last lines.
Lines ends_of(Lines const& lines, std::size_t n) {
  return {lines.end() - static_cast<std::ptrdiff_t>(std::min(n, lines.size())), lines.end()};
}

/// How many of the last files of a fit that is cut in this way were written after its epoch had been cut short. Each of
/// them leads to the rest of the unbroken run; `wrong` gets what does not.
int check_files(Fit const& fit, How const& how, std::string const& name, std::string& wrong) {
  auto const whole = trace(fit, {.more = how.more});
  files.clear();
  toy::world.files.clear();
  auto const cut = trace(fit, how);
  auto const all = files;
  int cut_short = 0;
  for (std::size_t i = all.size() - std::min<std::size_t>(all.size(), 7); i != all.size(); ++i) {
    auto const now = trace(fit, {.more = how.more}, all[i]);
    cut_short += says(all[i], "\"cut_short\":-1") ? 0 : 1;
    auto const rest = ends_of(whole, now.size());
    bool const nothing_left = is_of_the_end(all[i]) && cut.back() == whole.back();
    if (nothing_left ? now.back() == whole.back() : now == rest) continue;
    if (wrong.size() < 4000) wrong += name + ", " + all[i] + "\n" + reference::parting(rest, now) + "\n";
  }
  return cut_short;
}

using Placed = resumed::Placed<toy::draw>;
/// The same, of which each batch is made where the last one was.
struct Late : Placed {
  static constexpr bool batches_stay_valid = false;
};

using Numbers = std::vector<int>;
using Maybe = std::optional<double>;
using Rows = std::vector<std::vector<double>>;
Numbers const numbers{0, 1, 2, 3, 4, 5, 6, 7, 8};
std::vector<double> fives() { return toy::batches(5); }
auto shuffled(int workers) {
  return [workers] { return data::Loader{numbers, {.batch_size = 2, .shuffle = true, .workers = workers}}; };
}
auto generated() {
  return toy::Generator([](long, long b) { return b < 5 ? Maybe(static_cast<double>(b)) : std::nullopt; });
}

}  // namespace

TEST_CASE("where max_steps has cut an epoch short, each file leads to the rest of the unbroken run, event by event",
          "[long]") {
  std::string wrong;
  int inside = 0;
  said([&] {
    for (long const most : {0, 1, 4, 5, 6, 7, 13, 15}) {
      How const how{.steps = most};
      auto const check = [&](Fit const& fit, char const* name) {
        inside += check_files(fit, how, "max_steps " + std::to_string(most) + " " + name, wrong);
      };
      for (int const window : {1, 2}) {
        Automatic const by{.accumulate_grad_batches = window};
        check(fit_of<Stepped>(by, fives), "sized");
        check(fit_of<Stepped>(by, [] { return toy::Unsized(5); }), "unsized");
        check(fit_of<Stepped>(by, generated), "generated");
        check(fit_of<Stepped>(by, [] { return Placed{}; }), "placed");
        check(fit_of<Stepped>(by, [] { return Late{}; }), "late");
        check(fit_of<Stepped>(by, shuffled(0)), "shuffled");
        check(fit_of<Stepped>(by, [] { return std::vector<Maybe>{1.0, {}, 2.0, {}, 3.0, {}}; }), "none");
      }
      check(fit_of<Stepped>(Automatic{}, shuffled(2)), "workers");
      check(fit_of<Followed>(Automatic{}, fives), "plateau");
      check(fit_of<Players>(Manual{}, fives), "by hand");
      check(fit_of<Unrolled>(Automatic{.tbptt = 2},
                             [] { return Rows{{1, 2, 3, 4, 5}, {6, 7}, {8}, {9, 10, 11}, {12, 13, 14, 15}}; }),
            "slices");
    }
  });
  INFO(wrong);
  CHECK(wrong.empty());
  CHECK(inside > 100);
}

TEST_CASE("where max_steps has cut an epoch short: the same with validations of all rhythms") {
  std::string wrong;
  using O = TrainerOptions;
  auto const check = [&](void (*more)(O&), char const* name) {
    for (long const most : {1, 4, 7, 8})
      check_files(fit_of<Stepped>(Automatic{.accumulate_grad_batches = 2}, fives), {.steps = most, .more = more},
                  name + std::to_string(most), wrong);
  };
  said([&] {
    check([](O& o) { o.check_val_every_n_epoch = 2; }, "every second epoch ");
    check([](O& o) { o.check_val_every_n_epoch = std::nullopt, o.val_check_interval = 7; }, "across epochs ");
    check([](O& o) { o.val_check_interval = std::chrono::seconds(2); }, "by time ");
    check([](O& o) { o.min_epochs = 2; }, "minimum ");
    check([](O& o) { o.limit_train_batches = 4; }, "limit ");
  });
  INFO(wrong);
  CHECK(wrong.empty());
}

TEST_CASE("where max_time has cut an epoch short, each file goes on inside it once it is raised") {
  std::string wrong;
  int inside = 0;
  said([&] {
    for (int most = 1; most != 15; ++most)
      inside += check_files(fit_of<Stepped>(Automatic{}, fives), {.time = most}, std::to_string(most), wrong);
    // An open window was stepped with what it had: other weights, and each batch once.
    for (int most = 1; most != 15; ++most) {
      auto const fit = fit_of<Stepped>(Automatic{.accumulate_grad_batches = 3}, fives);
      files.clear();
      trace(fit, {.time = most});
      for (auto const& file : std::vector<std::string>(files))
        if (auto const now = trace(fit, {}, file).back();
            !now.starts_with("left 3 epochs") || now.find(" 15 batches") == now.npos)
          wrong += std::to_string(most) + " " + file + ": " + now + "\n";
    }
  });
  INFO(wrong);
  CHECK(wrong.empty());
  CHECK(inside > 20);
}

TEST_CASE("where a limit has cut an epoch short and stays, a run that goes on trains nothing, and is where it was") {
  std::string wrong;
  auto const fit = fit_of<Stepped>(Automatic{}, fives);
  said([&] {
    for (int most = 1; most != 15; ++most)
      for (How const& how : {How{.time = most}, How{.steps = most}}) {
        files.clear();
        auto const cut = trace(fit, how);
        for (auto const& file : {files.back(), files[files.size() - 2], files[files.size() - 3]}) {
          auto const now = trace(fit, how, file);
          bool const trains =
              std::any_of(now.begin(), now.end(), [](auto const& line) { return line.starts_with("batch"); });
          if (trains || now.back() != cut.back())
            wrong += std::to_string(most) + " " + file + ": " + now.back() + " instead of " + cut.back() + "\n";
        }
      }
    // Nor does one that is asked to stop before it has found its place.
    files.clear();
    trace(fit, {.steps = 2});
    for (auto const& file : {files.back(), files[files.size() - 2], files[files.size() - 3]})
      for (auto const& line : trace(fit, {.stops = {.at = "train_start"}}, file))
        if (line.starts_with("batch")) wrong += file + ": " + line + "\n";
  });
  INFO(wrong);
  CHECK(wrong.empty());
}

TEST_CASE("a stop: each file that holds it leads to its end, and to the rest of the unbroken run under another limit") {
  std::string wrong;
  auto const fit = fit_of<Stepped>(Automatic{}, fives);
  auto const whole = trace(fit, {});
  int finished = 0, inside = 0;
  auto const check = [&](std::string const& at, long number) {
    files.clear();
    auto const cut = trace(fit, {.stops = {.at = at, .number = number}});
    auto const all = files;
    for (std::size_t i = all.size() - 4; i != all.size(); ++i) {
      if (!says(all[i], "\"stop\":true")) continue;  // written before it
      auto const as_it_was = trace(fit, {}, all[i]);
      bool const trains =
          std::any_of(as_it_was.begin(), as_it_was.end(), [](auto const& line) { return line.starts_with("batch"); });
      if (trains || as_it_was.back() != cut.back()) wrong += at + ", " + all[i] + " did not lead to the end\n";
      if (is_of_the_end(all[i])) {
        bool const begins =
            std::any_of(as_it_was.begin(), as_it_was.end(), [](auto const& line) { return line.starts_with("epoch"); });
        if (begins) wrong += at + ", " + all[i] + " was not finished\n";
        ++finished;
      }
      auto const raised = trace(fit, {.steps = 100}, all[i]);
      auto const rest = ends_of(whole, raised.size());
      inside += says(all[i], "\"cut_short\":-1") ? 0 : 1;
      if (cut.back() == whole.back() ? raised.back() == whole.back() : raised == rest) continue;
      wrong += at + " " + std::to_string(number) + ", " + all[i] + "\n" + reference::parting(rest, raised) + "\n";
    }
  };
  said([&] {
    for (long n = 0; n != 3; ++n) check("epoch_start", n), check("epoch_end", n);
    for (long n = 1; n != 15; ++n) check("batch_end", n), check("batch_start", n);
  });
  INFO(wrong);
  CHECK(wrong.empty());
  CHECK(finished > 40);
  CHECK(inside > 40);
}

TEST_CASE("a Timer that is raised goes on inside the epoch, as max_time does, and one that is not trains nothing") {
  std::string wrong;
  auto const within = [](long most, Interval interval = Interval::step) {
    return fit_of<Stepped>(Automatic{}, fives,
                           [=] { return Timer{std::chrono::seconds(most), {.interval = interval}}; });
  };
  said([&] {
    auto const whole = trace(within(100), {});
    for (long most = 1; most != 15; ++most)
      for (auto const interval : {Interval::step, Interval::epoch}) {
        files.clear();
        auto const cut = trace(within(most, interval), {});
        auto const file = files[files.size() - 2];  // the one before that of save_checkpoint: of the end, too
        auto const again = trace(within(most, interval), {}, file);
        auto const now = trace(within(100, interval), {}, file);
        auto const rest = ends_of(whole, now.size());
        if (!is_of_the_end(file) || again.back() != cut.back() || again.size() > 2) wrong += "not the end\n";
        if (cut.back() == whole.back() ? now.back() == whole.back() : now == rest) continue;
        wrong += std::to_string(most) + ", " + file + "\n" + reference::parting(rest, now) + "\n";
      }
  });
  INFO(wrong);
  CHECK(wrong.empty());
}

TEST_CASE("cut twice, by one trainer whose limit is raised: from files, and from a snapshot") {
  using M = Stepped;
  auto const ran = [](std::vector<std::optional<long>> const& limits, bool in_memory, std::size_t back) {
    toy::world.rng = 7;
    files.clear();
    M model;
    auto loader = shuffled(0)();
    auto trainer = make_trainer<M>(options({.steps = limits.front()}), toy::Device{}, Float32{},
                                   Automatic{.accumulate_grad_batches = 2}, Stops{}, Tells{});
    std::optional<CkptPath> from = std::nullopt;
    trainer.fit(model, loader, toy::batches(2), from);
    for (std::size_t i = 1; i != limits.size(); ++i) {
      auto o = trainer.given_options();
      o.max_steps = limits[i];
      trainer.set_options(o);
      from = CkptPath{files[files.size() - back]};
      if (in_memory) trainer.fit(model, loader, toy::batches(2), snapshot(trainer));
      else trainer.fit(model, loader, toy::batches(2), from);
    }
    auto const& there = trainer.progress();
    return std::to_string(there.epoch) + " epochs " + std::to_string(there.global_step) + " steps random " +
           std::to_string(toy::world.rng) + " weight " + text(model.p.value());
  };
  said([&] {
    auto const whole = ran({std::nullopt}, false, 1);
    for (long once = 1; once < 8; once += 2)
      for (long twice = once + 1; twice != 9; ++twice) {
        CAPTURE(once, twice);
        for (std::size_t const back : {1U, 2U}) CHECK(ran({once, twice, std::nullopt}, false, back) == whole);
        CHECK(ran({once, twice, std::nullopt}, true, 1) == whole);
      }
  });
}

TEST_CASE(
    "where max_steps has cut an epoch short, nothing is left of what hooks did at its end in a run that goes on") {
  std::string wrong;
  int inside = 0;
  auto const epochs = [&](auto&&... callbacks) { return fit_of<Drifts>(Automatic{}, fives, callbacks...); };
  EMAWeightAveraging const by_epochs{{.decay = 0.5, .update_every_n_steps = 0, .update_starting_at_epoch = 0}};
  EMAWeightAveraging const by_steps{{.decay = 0.5}};
  EarlyStopping const patient{Drawn::t, {.patience = 1, .check_on_train_epoch_end = true}};
  EarlyStopping const at_once{Drawn::t, {.stopping_threshold = 1e9, .check_on_train_epoch_end = true}};
  said([&] {
    for (long const most : {1, 4, 6, 7, 13}) {
      auto const check = [&](Fit const& fit, std::string const& name) {
        inside += check_files(fit, {.steps = most}, name + " " + std::to_string(most), wrong);
      };
      check(epochs(), "the model's own hook");
      check(epochs(Keeps{}), "a callback");
      check(epochs(Keeps{}, Shrinks{}), "one that moves weights");
      check(epochs(by_epochs, Reads{}), "an average by epochs");
      check(epochs(by_steps, Reads{}), "an average by steps");
      check(epochs(by_epochs, Shrinks{}, Keeps{}, Reads{}), "all");
      check(epochs(patient), "a stop by patience");
      if (most < 5) check(epochs(at_once), "a stop at once");
      StochasticWeightAveraging const swa{{.swa_lrs = 0.05, .swa_epoch_start = 1, .annealing_epochs = 2}};
      check(epochs(swa, Reads{}), "a stochastic average");
      check(fit_of<Stepped>(Automatic{}, fives, swa, Reads{}), "the same with a schedule");
      GradientAccumulationScheduler const windows{{{1, 2}, {2, 3}}};
      check(fit_of<Stepped>(Automatic{}, fives, windows), "windows of other lengths");
      check(fit_of<Drifts>(Automatic{}, [] { return toy::Unsized(5); }, Keeps{}), "unsized");
      for (bool const lottery : {false, true}) {
        auto const pruning = [=] {
          return ModelPruning{{.amount = 0.5, .parameter_names = {"weight"}, .use_lottery_ticket_hypothesis = lottery}};
        };
        check(epochs(pruning), lottery ? "a lottery ticket" : "pruning");
      }
    }
    for (int most = 1; most != 15; ++most)
      check_files(epochs(by_epochs, Shrinks{}, Keeps{}, Reads{}), {.time = most}, "time " + std::to_string(most),
                  wrong);
  });
  INFO(wrong);
  CHECK(wrong.empty());
  CHECK(inside > 100);
}

TEST_CASE("where max_steps has cut an epoch short and stays, files of a run that trains nothing lead inside it, too") {
  std::string wrong;
  auto const check = [&](Fit const& fit) {
    auto const whole = trace(fit, {});
    files.clear();
    trace(fit, {.steps = 7});
    auto const all = ends_of(files, 3);
    for (auto const& file : all) {
      trace(fit, {.steps = 7}, file);
      auto const now = trace(fit, {}, "after going on");
      auto const rest = ends_of(whole, now.size());
      if (now != rest) wrong += file + "\n" + reference::parting(rest, now) + "\n";
    }
  };
  said([&] {
    check(fit_of<Drifts>(Automatic{}, fives, Keeps{}));
    check(fit_of<Drifts>(Automatic{}, [] { return resumed::Shuffled<toy::draw>(); }, Keeps{}));
  });
  INFO(wrong);
  CHECK(wrong.empty());
}

TEST_CASE("where max_steps has cut an epoch short, a program with other callbacks goes on from its files") {
  auto const still = fit_of<Drifts>(Automatic{}, fives, Keeps{});
  auto const moving = fit_of<Drifts>(Automatic{}, fives, Keeps{}, Shrinks{});  // its files hold weights of before, too
  std::string wrong;
  auto const check = [&](Fit const& writes, Fit const& goes_on) {
    files.clear();
    trace(writes, {.steps = 7});
    auto const file = files[files.size() - 2];
    if (!says(file, "\"before_cut\"")) wrong += "no epoch was cut\n";
    auto const now = trace(goes_on, {}, file);
    if (now.empty() || !now.back().starts_with("left 3 epochs")) wrong += now.empty() ? "nothing" : now.back() + "\n";
  };
  said([&] {
    check(still, moving);
    check(moving, still);
  });
  INFO(wrong);
  CHECK(wrong.empty());
}

namespace {
/// Fails once at an epoch's end, when the others have heard of it, and leaves a file then.
struct Breaks {
  using Stateless = ByChoice;
  static constexpr Order order = Order::checkpoint;
  void on_train_epoch_end(auto&) {
    if (std::exchange(fails, false)) throw Error("test.breaks", "broken");
  }
  void on_exception(auto& ctx) {
    ctx.request_checkpoint({this, [](CheckpointFiles& to) { to.write("broken"); }});
  }
  static inline bool fails = false;
};
/// Asks for a file in the hook of an epoch's end, at once.
struct SavesAtOnce {
  using Stateless = ByChoice;
  static constexpr Order order = Order::checkpoint;
  std::function<void()> save = nullptr;
  void on_train_epoch_end(auto&) {
    if (save) save();
  }
};
}  // namespace

TEST_CASE(
    "an epoch that max_steps has cut, whose end failed half told: it goes on inside the epoch, also told in two") {
  std::string wrong;
  auto const check = [&](Fit const& fit, std::string const& name) {
    auto const whole = trace(fit, {});
    for (long const most : {1, 4}) {
      files.clear();
      toy::world.files.clear();
      Breaks::fails = true;
      trace(fit, {.steps = most});
      REQUIRE(toy::world.files.contains("broken"));
      auto const compare = [&](Lines const& now, char const* how) {
        auto const rest = ends_of(whole, now.size());
        if (now.size() < 5 || now != rest) wrong += name + how + "\n" + reference::parting(rest, now) + "\n";
      };
      compare(trace(fit, {}, "broken"), " at once");
      trace(fit, {.steps = most}, "broken");  // the others hear of the end, and training ends
      compare(trace(fit, {}, "after going on"), " after another go");
    }
  };
  said([&] {
    check(fit_of<Stepped>(Automatic{}, fives, Keeps{}, Breaks{}), "a callback");
    check(fit_of<Drifts>(Automatic{}, fives, Keeps{}, Breaks{}), "a logged value");
  });
  INFO(wrong);
  CHECK(wrong.empty());
}

TEST_CASE("an epoch that max_steps has cut, and a file that a hook of its end asks for at once") {
  auto const run = [](std::optional<long> steps, std::string const& from, std::string const& to) {
    toy::world.rng = 7;
    second = 0;
    Stepped model;
    auto loader = fives();
    auto trainer =
        make_trainer<Stepped>(options({.steps = steps}), toy::Device{}, Float32{}, Automatic{}, Keeps{}, SavesAtOnce{});
    if (!to.empty()) trainer.template callback<SavesAtOnce>().save = [&] { trainer.save_checkpoint(to); };
    if (from.empty()) trainer.fit(model, loader, toy::batches(2));
    else trainer.fit(model, loader, toy::batches(2), CkptPath{from});
    trainer.save_checkpoint("its end");
    return text(model.p.value()) + " ends " + std::to_string(trainer.template callback<Keeps>().ends) + " random " +
           std::to_string(toy::world.rng);
  };
  said([&] {
    auto const whole = run(std::nullopt, "", "");
    for (long const most : {1, 4, 7}) {
      CAPTURE(most);
      run(most, "", "now");
      CHECK(run(std::nullopt, "now", "") == whole);
      run(most, "now", "");
      CHECK(run(std::nullopt, "its end", "") == whole);
    }
  });
}
