// Each kind of training, stopped at each of its places and gone on with by another trainer, does what the unbroken fit
// still had to do: events, rates, gradients, weights, random numbers, logged rows and the state at the end.
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fulgurite/callback/backbone_finetuning.hpp>
#include <fulgurite/callback/model_pruning.hpp>
#include <fulgurite/callback/signals.hpp>
#include <fulgurite/callback/stochastic_weight_averaging.hpp>
#include <fulgurite/data/combined.hpp>
#include <fulgurite/data/loader.hpp>
#include <fulgurite/schedule/schedule.hpp>

#include "callback_one_by_one.hpp"
#include "callback_stderr.hpp"
#include "loop_resume_loaders.hpp"
#include "models.hpp"
#include "reference/show.hpp"

using namespace fulgurite;
using reference::Lines;
using reference::text;
using resumed::number;
using resumed::Passes;
using thaws::OneByOne;
using toy::Tensor;

namespace {

Lines heard;
long fails_in = -1;  ///< so many places later something fails
bool draws = true;
bool cuts_all = true;  ///< not only where it fails
void may_fail() {
  if (fails_in >= 0 && fails_in-- == 0) throw Error("fulgurite.test.failed", "something failed");
}
double drawn() {
  may_fail();
  return draws ? toy::draw() : 0.5;
}
struct Cut {
  std::string file;
  std::size_t heard;  ///< lines that were heard when it was written
};
std::vector<Cut> cuts;

template <class M>
std::string weights(M& model) {
  std::string all = " weights";
  for (auto const& [name, p] : toy::Backend::named_parameters(model)) all += " " + text(p.value());
  if constexpr (requires { model.norm.mean; }) all += " norm " + text(model.norm.mean);
  return all;
}

/// Says what happens, and what is there then; keeps rows. Asks for a file at each event of training, where it `saves`;
/// one that goes on forgets what was heard while it opened.
struct Tells {
  using Stateless = ByChoice;
  static constexpr Order order = Order::checkpoint;
  bool saves = true;

  void on_fit_start(auto& ctx) { tell("fit_start", ctx); }
  void on_train_start(auto& ctx) {
    tell("train_start", ctx);
    if (saves) return;
    toy::world.restored = [] {
      heard.clear();
      toy::world.restored = nullptr;
    };
  }
  void on_train_epoch_start(auto& ctx) { tell("train_epoch_start", ctx); }
  void on_train_batch_start(auto& ctx) { tell("train_batch_start " + std::to_string(ctx.batch_idx()), ctx); }
  void on_before_backward(auto& ctx) { say("before_backward", ctx); }
  void on_before_optimizer_step(auto& ctx) {
    std::string line = "step";
    ctx.each_optimizer([&](std::size_t, auto& optimizer) {
      for (std::size_t g = 0; g != optimizer.groups(); ++g) line += " rate " + text(optimizer.lr(g));
      for (auto const& p : optimizer.parameters()) line += " gradient " + (p.has_grad() ? text(p.grad()) : "none");
    });
    say(line, ctx);
  }
  void on_train_batch_end(auto& ctx) { tell("train_batch_end " + std::to_string(ctx.batch_idx()), ctx); }
  void on_validation_start(auto& ctx) { tell("validation_start", ctx); }
  void on_validation_batch_end(auto& ctx) { say("validation_batch_end " + std::to_string(ctx.batch_idx()), ctx); }
  void on_validation_epoch_end(auto& ctx) { tell("validation_epoch_end", ctx); }
  void on_validation_end(auto& ctx) { tell("validation_end", ctx); }
  void on_train_epoch_end(auto& ctx) { tell("train_epoch_end", ctx); }
  void on_train_end(auto& ctx) { tell("train_end", ctx); }
  void on_exception(auto& ctx) {
    if (saves) ctx.request_checkpoint("failed");
  }
  void on_fit_end(auto& ctx) { say("fit_end", ctx); }
  void log_metrics(std::span<Scalar const> cells, long x) {
    std::string line = "row x=" + std::to_string(x);
    for (auto const& cell : cells) line += " " + std::string(cell.name) + "=" + text(cell.value);
    heard.push_back(line);
  }

 private:
  static void say(std::string const& event, auto& ctx) {
    heard.push_back(event + " of epoch " + std::to_string(ctx.current_epoch()) + " steps " +
                    std::to_string(ctx.global_step()) + " random " + std::to_string(toy::world.rng) +
                    weights(ctx.model()));
  }
  void tell(std::string const& event, auto& ctx) {
    may_fail();
    say(event, ctx);
    if (!saves || !cuts_all || ctx.sanity_checking()) return;
    ctx.request_checkpoint({this, [](CheckpointFiles& files) {
                              std::string const file = "cut" + std::to_string(cuts.size());
                              files.write(file);
                              cuts.push_back({file, heard.size()});
                            }});
  }
};

TrainerOptions::Clock::time_point still() { return {}; }
/// Three epochs, each validated twice or more.
TrainerOptions options() {
  TrainerOptions o{.max_epochs = 3, .num_sanity_val_steps = 1, .log_every_n_steps = 2, .now = &still};
  o.val_check_interval = 2;
  return o;
}

/// What a file says, without what is of an open epoch alone.
std::string left_in(std::string const& file) {
  auto left = toy::world.files[file].state;
  for (std::string const passing : {"\"pass_random\"", "\"validation_since\""})
    if (auto const at = left.find(passing); at != left.npos) left.erase(at, left.find(",", at) - at + 1);
  return left;
}

/// One fit, from its beginning or from a file; then what it left.
struct Go {
  std::optional<CkptPath> from = std::nullopt;
  Tells tells() const { return {.saves = !from}; }
  void operator()(auto& trainer, auto& model, auto&&... data) const {
    trainer.fit(model, data..., from);
    toy::world.restored = nullptr;
    trainer.save_checkpoint("end");
    heard.push_back("left: " + left_in("end") + weights(model));
  }
};

using Fit = std::function<void(Go const&)>;  // so that what follows is compiled once
Lines trace(Fit const& fit, std::optional<CkptPath> const& from = std::nullopt) {
  heard.clear();
  toy::world.rng = 7;
  try {
    fit(Go{from});
  } catch (Error const& error) { heard.push_back(std::string("Error ") + error.what()); }
  toy::world.restored = nullptr;
  return heard;
}

/// From each file that this fit leaves, another one does what was left to do; there are at least so many files.
void check_everywhere(std::size_t at_least, Fit const& fit) {
  cuts.clear();
  toy::world.files.clear();
  toy::Restored<std::uint64_t> const random(toy::world.rng);
  std::string first;
  int wrong = 0;
  said([&] {
    Lines const whole = trace(fit);
    if (!whole.back().starts_with("left: ")) first = whole.back(), ++wrong;
    for (auto const& cut : std::vector<Cut>(cuts)) {
      Lines const rest(whole.begin() + static_cast<std::ptrdiff_t>(cut.heard), whole.end());
      Lines now = trace(fit, CkptPath{cut.file});
      // Training had ended: what opens a fit is heard, and its end.
      if (rest.size() == 2 && now.size() > 2) now.erase(now.begin(), now.end() - 2);
      if (now == rest || wrong++ != 0) continue;
      first = cut.file + " after: " + (cut.heard == 0 ? "" : whole[cut.heard - 1]) + "\n" +
              toy::world.files[cut.file].state + "\n" + reference::parting(rest, now);
    }
  });
  INFO(wrong << " of " << cuts.size() << " files lead elsewhere; the first:\n" << first);
  CHECK(wrong == 0);
  CHECK(cuts.size() >= at_least);
}

/// Where a fit fails, the file of its exception leads to the weights and counters of one that does not; there are at
/// least so many places.
void check_failures(int at_least, Fit const& fit) {
  toy::world.files.clear();
  toy::Restored<std::uint64_t> const random(toy::world.rng);
  toy::Restored<bool> const constant(draws, false), few(cuts_all, false);
  std::string all;
  int places = 0;
  said([&] {
    auto const ends = [&](std::optional<CkptPath> const& from = std::nullopt) {
      auto const line = trace(fit, from).back();
      return line.substr(0, line.find("\"callbacks\"")) + line.substr(std::min(line.size(), line.find(" weights")));
    };
    auto const whole = ends();
    for (long at = 0; at != 1000; ++at) {
      toy::world.files.erase("failed");
      cuts.clear();
      fails_in = at;
      auto const failed = trace(fit);
      bool const reached = fails_in < 0;
      fails_in = -1;
      if (!reached) break;
      if (!toy::world.files.contains("failed")) continue;
      ++places;
      auto const now = ends(CkptPath{"failed"});
      if (now == whole) continue;
      all += "place " + std::to_string(at) + " after " + failed[failed.size() < 2 ? 0 : failed.size() - 2] + "\n  " +
             now + "\n  instead of " + whole + "\n";
      if (all.size() > 4000) break;
    }
  });
  INFO(all);
  CHECK(all.empty());
  CHECK(places >= at_least);
}

/// Draws in each step, and logs in both ways. Two of its weights are parts of their own.
struct Drawn {
  static constexpr Metric<"t"> t{.on_step = Report::yes, .on_epoch = Report::yes};
  static constexpr Metric<"v"> v{};
  using Metrics = MetricList<t, v>;
  Tensor p = Tensor::parameter(0.5);
  std::vector<Tensor> w{Tensor::parameter(1), Tensor::parameter(-2), Tensor::parameter(3), Tensor::parameter(-4)};
  std::vector<toy::Part> parts{{{w[0]}}, {{w[1]}}};
  std::vector<std::pair<std::string, Tensor>> named_parameters() {
    return {{"a.weight", w[0]}, {"b.weight", w[1]}, {"c.weight", w[2]}, {"d.weight", w[3]}, {"p", p}};
  }
  std::vector<Tensor> parameters() const { return {w[0], w[1], w[2], w[3], p}; }
  Tensor training_step(auto const& batch, auto& ctx) {
    auto loss = (w[0] + w[1] * Tensor(2) + w[2] - w[3] + p) * Tensor(number(batch) + drawn());
    ctx.log(t, loss);
    return loss;
  }
  void validation_step(double batch, auto& ctx) { ctx.log(v, p.value() * (batch + drawn())); }
  toy::Sgd configure_optimizers() { return {.params = parameters(), .rate = 0.03125, .momentum = 0.5}; }
};

/// Two players with a parameter in common. One steps after each batch, the other after every third, across epochs.
struct Players : Drawn {
  Tensor a = Tensor::parameter(1), b = Tensor::parameter(2);
  long since = 0;
  std::vector<std::pair<std::string, Tensor>> named_parameters() { return {{"p", p}, {"a", a}, {"b", b}}; }
  std::vector<Tensor> parameters() const { return {p, a, b}; }
  void state(auto& archive) { archive("since", since); }
  void training_step(double batch, auto& ctx) {
    auto& [slow, fast] = ctx.optimizers();
    auto& [of_slow, of_fast] = ctx.lr_schedulers();
    ctx.minimize(fast, b * p * Tensor(drawn()));
    of_fast.step();
    {
      auto const only = ctx.toggle(slow);
      auto loss = a * b * Tensor(batch + drawn());
      ctx.log(t, loss);
      ctx.backward(loss);
    }
    if (++since % 3 != 0) return;
    ctx.clip_gradients(slow, ClipNorm{2.0});
    ctx.step(slow);
    slow.zero_grad();
    of_slow.step();
  }
  auto configure_optimizers() {
    return optimizers(scheduled(toy::Sgd{.params = {a}, .rate = 0.125, .momentum = 0.5}, schedule::Step{2, 0.5}),
                      scheduled(toy::Sgd{.params = {b, p}, .rate = 0.0625, .momentum = 0.25}, schedule::Step{3, 0.5}));
  }
};

/// A step for each two numbers of a batch.
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
    Tensor h = hidden.value_or(Tensor(0.25)) * p + p * Tensor(slice.front() + drawn());
    ctx.log(t, h);
    return {h, h};
  }
  void validation_step(double batch, auto& ctx) { ctx.log(v, p.value() * (batch + drawn())); }
  toy::Sgd configure_optimizers() { return {.params = {p}, .rate = 0.03125, .momentum = 0.5}; }
};

using Shuffled = resumed::Shuffled<drawn>;
using Placed = resumed::Placed<drawn>;

/// Nine numbers, two in a batch, shuffled.
auto pairs() {
  static std::vector<int> const all{0, 1, 2, 3, 4, 5, 6, 7, 8};
  return data::Loader{all, {.batch_size = 2, .shuffle = true}};
}

/// Fails at an epoch's end before others have heard of it.
struct FailsFirst {
  using Stateless = ByChoice;
  static constexpr Order order = Order::tuner;
  void on_train_epoch_end() { may_fail(); }
};

/// A fit of this model, automatic, with such windows.
template <class M, class... Cs>
void fit_automatic(Go const& go, int window, auto&& loader, Cs... callbacks) {
  M model;
  auto trainer = toy::train<M>(options(), Automatic{.accumulate_grad_batches = window}, FailsFirst{},
                               std::move(callbacks)..., go.tells());
  go(trainer, model, loader, toy::batches(2));
}

}  // namespace

TEST_CASE("from each place: manual optimization, with gradients that are kept over batches, validations and epochs") {
  check_everywhere(40, [](Go const& go) {
    Players model;
    auto trainer = make_trainer<Players>(options(), toy::Device{}, Float32{}, Manual{}, go.tells());
    go(trainer, model, toy::batches(5), toy::batches(2));
  });
}

TEST_CASE("from each place: slices of batches, whose state is carried") {
  check_everywhere(40, [](Go const& go) {
    Unrolled model;
    std::vector<std::vector<double>> const data{{1, 2, 3, 4, 5}, {6, 7}, {8}, {9, 10, 11}, {12, 13, 14, 15}};
    auto trainer = toy::train<Unrolled>(options(), Automatic{.tbptt = 2}, go.tells());
    go(trainer, model, data, toy::batches(2));
  });
}

TEST_CASE("slices of batches: where more steps are allowed, a run goes on with all that it had not done") {
  std::vector<std::vector<double>> const data{{1, 2, 3, 4, 5}, {6, 7}, {8, 9, 10}};
  toy::Restored<bool> const constant(draws, false);
  auto const fit = [&](long most, std::optional<CkptPath> const& from = std::nullopt) {
    Unrolled model;
    auto limits = options();
    limits.max_epochs = std::nullopt, limits.max_steps = most;
    auto trainer = toy::train<Unrolled>(limits, Automatic{.tbptt = 2}, Tells{.saves = !from});
    trainer.fit(model, data, toy::batches(2), from);
    return std::pair(model.p.value(), trainer.progress().global_step);
  };
  said([&] {
    cuts.clear();
    auto const whole = fit(6);
    CHECK(whole.second == 6);
    for (long const most : {1, 2, 4, 5}) {
      CAPTURE(most);
      cuts.clear();
      fit(most);
      auto const at_end = std::find_if(cuts.begin(), cuts.end(), [&](Cut const& cut) {
        return toy::world.files[cut.file].state.find("\"at\":3") != std::string::npos;  // after that batch
      });
      REQUIRE(at_end != cuts.end());
      for (auto from = at_end; from != cuts.end(); ++from) {
        if (toy::world.files[from->file].state.find("\"at\":3") == std::string::npos) continue;
        CHECK(fit(6, CkptPath{from->file}) == whole);
      }
    }
  });
}

namespace {
/// Its state is none that a tensor alone could be.
struct TwoStates : Unrolled {
  using Hidden = std::tuple<Tensor, std::vector<Tensor>>;
  struct Output {
    Tensor loss;
    Hidden hidden;
  };
  Output training_step(std::vector<double> const& slice, std::optional<Hidden> const& hidden, auto& ctx) {
    auto const before = hidden ? std::get<0>(*hidden) + std::get<1>(*hidden).back() : Tensor(0.25);
    Tensor h = before * p + p * Tensor(slice.front() + drawn());
    ctx.log(t, h);
    return {h, {h, {Tensor(1.0), h * Tensor(0.5)}}};
  }
};

/// No file can hold it.
struct Opaque : Unrolled {
  struct Hidden {
    Tensor h;
  };
  struct Output {
    Tensor loss;
    Hidden hidden;
  };
  long left = 2;
  Output training_step(std::vector<double> const& slice, std::optional<Hidden> const& hidden, auto&) {
    if (left-- == 0) throw Error("fulgurite.test.failed", "something failed");
    Tensor h = (hidden ? hidden->h : Tensor(0.25)) * p + p * Tensor(slice.front());
    return {h, {h}};
  }
};
}  // namespace

TEST_CASE(
    "slices of batches: a state that no file can hold is said, and its batch is done again from its first slice") {
  Opaque model, again;
  again.left = -1;
  std::vector<std::vector<double>> const data{{1, 2, 3, 4, 5, 6}};
  auto const fit = [&](Opaque& of, std::optional<CkptPath> from) {
    auto limits = options();
    limits.max_epochs = 1;
    auto trainer = toy::train<Opaque>(limits, Automatic{.tbptt = 2}, Tells{.saves = !from});
    try {
      trainer.fit(of, data, NoValidation{}, from);
    } catch (Error const&) {}
    return trainer.progress().global_step;
  };
  auto const warning = said([&] { CHECK(fit(model, std::nullopt) == 2); });
  CHECK(warning.find("[fulgurite.resume.hidden]") != std::string::npos);
  said([&] { CHECK(fit(again, CkptPath{"failed"}) == 2 + 3); });
}

TEST_CASE("slices of batches: a fit that fails between two of them ends as one that did not") {
  std::vector<std::vector<double>> const data{{1, 2, 3, 4, 5}, {6, 7}, {8}, {9, 10, 11}, {12, 13, 14, 15}};
  auto const of = [&]<class M>(std::type_identity<M>) {
    return [&](Go const& go) {
      M model;
      auto trainer = toy::train<M>(options(), Automatic{.tbptt = 2}, go.tells());
      go(trainer, model, data, toy::batches(2));
    };
  };
  check_failures(40, of(std::type_identity<Unrolled>{}));
  check_failures(40, of(std::type_identity<TwoStates>{}));
}

TEST_CASE("from each place: several training loaders, shuffled, with and without a size, whichever ends an epoch",
          "[long]") {
  using data::CombineMode;
  auto const with = [](auto mode, auto other) {
    for (int const window : {1, 2})
      check_everywhere(25, [&](Go const& go) {
        auto loader = data::combined<decltype(mode)::value>(other, pairs());
        fit_automatic<Drawn>(go, window, loader);
      });
  };
  auto const in_each_mode = [&](auto const& other) {
    with(std::integral_constant<CombineMode, CombineMode::min_size>{}, other);
    with(std::integral_constant<CombineMode, CombineMode::max_size>{}, other);
    with(std::integral_constant<CombineMode, CombineMode::max_size_cycle>{}, other);
  };
  for (int const length : {3, 7}) in_each_mode(toy::batches(length)), in_each_mode(toy::Unsized(length));
}

TEST_CASE("from each place: an unsized loader that keeps its place, and one that is skipped forward") {
  for (int const window : {1, 2, 3}) {
    CAPTURE(window);
    check_everywhere(25, [&](Go const& go) { fit_automatic<Drawn>(go, window, Placed{}); });
    check_everywhere(25, [&](Go const& go) { fit_automatic<Drawn>(go, window, Shuffled{}); });
  }
}

TEST_CASE("where max_steps has cut an epoch short, each file goes on inside it with more steps, as if nothing had",
          "[long]") {
  cuts.clear();
  toy::world.files.clear();
  toy::Restored<std::uint64_t> const random(toy::world.rng);
  std::string all;
  int ends_inside = 0;
  auto const check = [&](int window, auto const& make_loader) {
    auto const fit = [&](std::optional<long> most, std::optional<CkptPath> const& from = std::nullopt) {
      auto one = [&](Go const& go) {
        auto limits = options();
        limits.max_steps = most;
        auto loader = make_loader();
        Drawn model;
        auto trainer =
            toy::train<Drawn>(limits, Automatic{.accumulate_grad_batches = window}, FailsFirst{}, go.tells());
        go(trainer, model, loader, toy::batches(2));
      };
      return trace(one, from);
    };
    auto const whole = fit(std::nullopt);
    for (long most = 1; most != 3 * ((5 + window - 1) / window); ++most) {
      cuts.clear();
      fit(most);
      toy::world.files["saved after it"] = toy::world.files["end"];
      cuts.push_back({"saved after it", 0});
      for (auto const& cut : std::vector<Cut>(cuts)) {
        auto const now = fit(std::nullopt, CkptPath{cut.file});
        ends_inside += toy::world.files[cut.file].state.find("\"cut_short\":-1") == std::string::npos ? 1 : 0;
        // The epoch's row is that of its whole, too.
        auto const row = [](Lines const& lines) {
          auto const is_row = [](auto const& line) { return line.starts_with("row"); };
          auto const at = std::find_if(lines.rbegin(), lines.rend(), is_row);
          return at == lines.rend() ? std::string("none") : *at;
        };
        if (now.back() != whole.back() || row(now) != row(whole))
          all += "after " + std::to_string(most) + " steps, " + cut.file + "\n  " +
                 reference::parting({whole.back()}, {now.back()}) + "\n  " + row(now) + "\n  instead of " + row(whole) +
                 "\n";
      }
    }
  };
  said([&] {
    for (int const window : {1, 2, 3}) {
      check(window, [] { return toy::batches(5); });
      check(window, pairs);
      check(window, [] { return Placed{}; });
      check(window, [] { return Shuffled{}; });
    }
  });
  INFO(all.substr(0, 4000));
  CHECK(all.empty());
  CHECK(ends_inside >= 40);
}

TEST_CASE("from each place: several validation loaders, some of which keep a place") {
  for (int const window : {1, 2})
    check_everywhere(25, [&](Go const& go) {
      Drawn model;
      auto trainer = toy::train<Drawn>(options(), Automatic{.accumulate_grad_batches = window}, go.tells());
      std::tuple loaders{toy::batches(2), Passes{}, Shuffled{}, Passes{10}};
      go(trainer, model, toy::batches(5), loaders);
    });
}

namespace {
/// Its scale grows and overflows: more than 65504 is none of the toy's float16.
struct Overflows : Drawn {
  Tensor training_step(double batch, auto& ctx) {
    auto loss = p * Tensor((batch + drawn()) * 4);
    ctx.log(t, loss);
    return loss;
  }
  void on_train_batch_end(auto& ctx) { heard.push_back("skipped " + std::to_string(ctx.skipped_steps())); }
};
/// A batch norm sees what each step computes, in the pass for statistics, too.
struct Normed : Drawn {
  toy::Norm norm{};
  void state(auto& archive) { archive("mean", norm.mean)("seen", norm.seen); }
  Tensor training_step(double batch, auto& ctx) {
    auto loss = Drawn::training_step(batch, ctx);
    norm.see(batch + p.value());
    return loss;
  }
};
/// Its parts are no optimizer's at first. Rates move every second step.
struct WarmedUp : Drawn {
  auto configure_optimizers() {
    return scheduled(toy::Sgd{.params = {p, w[2], w[3]}, .rate = 0.03125, .momentum = 0.5},
                     schedule::WarmupCosine{.warmup = 3, .total = 9}, {.interval = Interval::step, .frequency = 2});
  }
};
/// Watches each validation, which gets worse now and then.
template <int frequency>
struct Watches : Drawn {
  void validation_step(double, auto& ctx) { ctx.log(v, drawn()); }
  auto configure_optimizers() {
    return scheduled(Drawn::configure_optimizers(),
                     schedule::ReduceOnPlateau{v, {.factor = 0.5, .patience = 0, .strict = false}},
                     {.interval = Interval::step, .frequency = frequency});
  }
};
/// All of it for one optimizer, and a rate that falls with the epochs.
struct Together : Drawn {
  void validation_step(double, auto& ctx) { ctx.log(v, drawn()); }
  auto configure_optimizers() {
    auto warmed = scheduled(Drawn::configure_optimizers(), schedule::WarmupCosine{.warmup = 3, .total = 40});
    auto falling = scheduled(std::move(warmed), schedule::Exponential{0.9});
    return scheduled(std::move(falling), schedule::ReduceOnPlateau{v, {.factor = 0.7, .patience = 0, .strict = false}},
                     {.interval = Interval::step});
  }
};
}  // namespace

TEST_CASE("from each place: a scaled loss, whose scale grows and overflows") {
  for (int const window : {1, 2, 3})
    check_everywhere(25, [&](Go const& go) {
      Overflows model;
      auto trainer = make_trainer<Overflows>(options(), toy::Gpu{}, Fp16Mixed{.init_scale = 4096, .growth_interval = 2},
                                             Automatic{.accumulate_grad_batches = window}, go.tells());
      go(trainer, model, toy::batches(5), toy::batches(2));
      if (!go.from) CHECK(trainer.progress().skipped_steps > 0);
    });
}

TEST_CASE("from each place: an average with its pass for statistics") {
  for (int const window : {1, 2})
    check_everywhere(25, [&](Go const& go) {
      fit_automatic<Normed>(go, window, toy::batches(5),
                            StochasticWeightAveraging{{.swa_lrs = 0.25, .swa_epoch_start = 2, .annealing_epochs = 2}});
    });
}

TEST_CASE(
    "an average with its pass for statistics: a run that had ended goes on, where it is raised, with the weights, "
    "the statistics and the data that it would have had") {
  auto const swa = [] { return StochasticWeightAveraging{{.swa_lrs = 0.25, .swa_epoch_start = 1}}; };
  auto const check = [&](auto const& make_loader) {
    auto const fit = [&](int epochs, bool from_end) {
      Normed model;
      auto loader = make_loader();
      auto limits = options();
      limits.max_epochs = epochs;
      auto trainer = toy::train<Normed>(limits, Automatic{}, FailsFirst{}, swa(), Tells{.saves = false});
      toy::world.rng = 7;
      trainer.fit(model, loader, toy::batches(2), from_end ? std::optional(CkptPath{"end"}) : std::nullopt);
      toy::world.restored = nullptr;
      trainer.save_checkpoint("end");
      auto const state = left_in("end");
      return "weights " + text(model.p.value()) + " norm " + text(model.norm.mean) + " of " +
             std::to_string(model.norm.seen) + state.substr(state.find("\"StochasticWeightAveraging"));
    };
    said([&] {
      auto const whole = fit(4, false);
      fit(2, false);
      CHECK(fit(4, true) == whole);
    });
  };
  toy::Restored<std::uint64_t> const random(toy::world.rng);
  check([] { return toy::batches(5); });
  check([] { return Placed{}; });
  check([] { return Passes{}; });
}

TEST_CASE("from each place: parts that are thawed one after the other, with a schedule") {
  for (int const window : {1, 2})
    check_everywhere(25, [&](Go const& go) { fit_automatic<WarmedUp>(go, window, toy::batches(5), OneByOne{}); });
}

TEST_CASE("from each place: pruned weights, which go on or begin anew from their first values, at ends of epochs or of "
          "validations") {
  for (bool const lottery : {false, true})
    for (bool const at_epochs : {false, true})
      check_everywhere(25, [&](Go const& go) {
        fit_automatic<Drawn>(go, 2, toy::batches(5),
                             ModelPruning{{.amount = 0.5,
                                           .parameter_names = {"weight"},
                                           .make_pruning_permanent = false,
                                           .use_lottery_ticket_hypothesis = lottery,
                                           .prune_on_train_epoch_end = at_epochs}});
      });
}

TEST_CASE("from each place: rates that move every second step, rates that follow validations, and several schedules") {
  for (int const window : {1, 2}) {
    check_everywhere(25, [&](Go const& go) { fit_automatic<Together>(go, window, toy::batches(5)); });
    check_everywhere(25, [&](Go const& go) { fit_automatic<WarmedUp>(go, window, toy::batches(5)); });
    check_everywhere(25, [&](Go const& go) { fit_automatic<Watches<1>>(go, window, toy::batches(5)); });
    check_everywhere(25, [&](Go const& go) { fit_automatic<Watches<3>>(go, window, toy::batches(5)); });
  }
}

TEST_CASE("after a failure in a step, a validation, a hook or the pass for statistics a fit ends as one without it",
          "[long]") {
  for (int const window : {1, 2}) {
    CAPTURE(window);
    check_failures(40, [&](Go const& go) { fit_automatic<Drawn>(go, window, toy::batches(5)); });
    check_failures(40, [&](Go const& go) { fit_automatic<Drawn>(go, window, Shuffled{}); });
    check_failures(40, [&](Go const& go) {
      fit_automatic<Normed>(go, window, toy::batches(5),
                            StochasticWeightAveraging{{.swa_lrs = 0.25, .swa_epoch_start = 2, .annealing_epochs = 2}});
    });
    check_failures(40, [&](Go const& go) { fit_automatic<WarmedUp>(go, window, toy::batches(5), OneByOne{}); });
    check_failures(40, [&](Go const& go) { fit_automatic<Watches<1>>(go, window, toy::batches(5)); });
    check_failures(40, [&](Go const& go) { fit_automatic<Watches<3>>(go, window, toy::batches(5)); });
  }
}

TEST_CASE("a fit that had ended trains nothing and ends nothing twice; random numbers go on as they would have") {
  cuts.clear();
  toy::world.files.clear();
  toy::Restored<std::uint64_t> const random(toy::world.rng);
  said([&] {
    Drawn model;
    auto trainer = toy::train<Drawn>(options(), Automatic{}, FailsFirst{}, Go{}.tells());
    Go{}(trainer, model, toy::batches(5), toy::batches(2));
    auto const left = heard.back();
    auto const drawn_then = toy::world.rng;
    auto const kept = snapshot(trainer);
    for (int again = 0; again != 2; ++again) {  // the second one goes on from what the first one left
      heard.clear();
      toy::world.rng = 3;
      Drawn then;
      auto other = toy::train<Drawn>(options(), Automatic{}, FailsFirst{}, Tells{.saves = false});
      Go{CkptPath{"end"}}(other, then, toy::batches(5), toy::batches(2));
      CHECK(toy::world.rng == drawn_then);
      CHECK(heard.back() == left);
      CHECK(std::none_of(heard.begin(), heard.end(), [](auto const& line) { return line.starts_with("train"); }));
    }
    toy::world.rng = 3;
    trainer.fit(model, toy::batches(5), toy::batches(2), kept);
    CHECK(toy::world.rng == drawn_then);
  });
}
