// A fit that a limit or a stop has ended inside an epoch, or at its very end, and what a run that goes on from each of
// its files does: the rest of the unbroken one.
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fulgurite/data/loader.hpp>
#include <fulgurite/schedule/plateau.hpp>
#include <fulgurite/schedule/warmup.hpp>

#include "callback_stderr.hpp"
#include "models.hpp"
#include "reference/show.hpp"

using namespace fulgurite;
using reference::Lines;
using reference::text;
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

double number(double x) { return x; }
double number(std::vector<int> const& all) {
  double sum = 0;
  for (int x : all) sum += x;
  return sum;
}
template <class T>
double number(std::optional<T> const& x) {
  return x ? number(*x) : 0.5;
}

/// Draws in each step, not in validation.
template <class Batch = double>
struct Drawn {
  static constexpr Metric<"t"> t{.on_step = Report::yes, .on_epoch = Report::yes};
  static constexpr Metric<"v"> v{};
  using Metrics = MetricList<t, v>;
  Tensor p = Tensor::parameter(0.5);
  Tensor training_step(Batch const& batch, auto& ctx) {
    auto loss = p * Tensor(number(batch) + toy::draw());
    ctx.log(t, loss);
    return loss;
  }
  void validation_step(double batch, auto& ctx) { ctx.log(v, p.value() * batch); }
  toy::Sgd configure_optimizers() { return {.params = {p}, .rate = 0.125, .momentum = 0.5}; }
};
template <class Batch = double>
struct Stepped : Drawn<Batch> {
  auto configure_optimizers() {
    return scheduled(Drawn<Batch>::configure_optimizers(), schedule::Step{1, 0.5}, {.interval = Interval::epoch});
  }
};
struct Followed : Drawn<> {
  auto configure_optimizers() {
    return scheduled(Drawn<>::configure_optimizers(), schedule::ReduceOnPlateau{t, {.factor = 0.5, .patience = 0}});
  }
};
/// Two players; one keeps its gradients over three batches, across epochs.
struct Players : Drawn<> {
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

/// fit(how, from): a fit of fresh parts.
template <class Fit>
Lines trace(Fit const& fit, How const& how, std::string const& from = "") {
  heard.clear();
  toy::world.rng = 7;
  second = 0;
  try {
    fit(how, from);
  } catch (Error const& error) { heard.push_back(std::string("Error ") + error.what()); }
  toy::world.restored = nullptr;
  return heard;
}

template <class M, class O = Automatic>
auto fit_of(O const& optimization, auto make_loader) {
  return [=](How const& how, std::string const& from) {
    auto loader = make_loader();
    M model;
    auto trainer = make_trainer<M>(options(how), toy::Device{}, Float32{}, optimization, how.stops,
                                   Tells{.saves = from.empty()});
    if (from.empty()) trainer.fit(model, loader, toy::batches(2));
    else trainer.fit(model, loader, toy::batches(2), CkptPath{from});
    toy::world.restored = nullptr;
    heard.push_back("left " + std::to_string(trainer.progress().epoch) + " epochs " +
                    std::to_string(trainer.progress().global_step) + " steps " +
                    std::to_string(trainer.progress().total_batches) + " batches random " +
                    std::to_string(toy::world.rng));
    if (from.empty()) trainer.save_checkpoint("after it"), files.push_back("after it");
  };
}

/// The rest of the unbroken run that begins with this line, else nothing.
Lines rest_of(Lines const& whole, std::size_t n) {
  return {whole.end() - static_cast<std::ptrdiff_t>(std::min(n, whole.size())), whole.end()};
}

/// Each file of a fit that is cut in this way leads to the rest of the unbroken run. `wrong` gets what does not.
template <class Fit>
int each_file(Fit const& fit, How const& how, std::string const& name, std::string& wrong) {
  auto const whole = trace(fit, {.more = how.more});
  files.clear();
  toy::world.files.clear();
  auto const cut = trace(fit, how);
  int cut_short = 0;
  auto const all = files;
  for (auto const& file : all) {
    auto const now = trace(fit, {.more = how.more}, file);
    if (cut.back() == whole.back() && now.back() == whole.back() && toy::world.files[file].state.find("\"at\":7") != std::string::npos) continue;
    cut_short += toy::world.files[file].state.find("\"cut_short\":-1") == std::string::npos ? 1 : 0;
    if (now == rest_of(whole, now.size())) continue;
    if (wrong.size() < 6000)
      wrong += name + ", " + file + "\n" + reference::parting(rest_of(whole, now.size()), now) + "\n";
  }
  return cut_short;
}

auto const fives = [] { return toy::batches(5); };
std::vector<int> const numbers{0, 1, 2, 3, 4, 5, 6, 7, 8};
auto const shuffled = [] { return data::Loader{numbers, {.batch_size = 2, .shuffle = true}}; };
auto const generated = [] {
  return toy::Generator([](long, long b) { return b < 5 ? std::optional<double>(double(b)) : std::nullopt; });
};
using Numbers = std::vector<int>;

}  // namespace

TEST_CASE("cuts: max_steps") {
  std::string wrong;
  int inside = 0;
  said([&] {
    for (long most = 0; most != 16; ++most) {
      auto const name = "max_steps " + std::to_string(most);
      inside += each_file(fit_of<Drawn<>>(Automatic{}, fives), {.steps = most}, name + " plain", wrong);
      inside += each_file(fit_of<Stepped<>>(Automatic{}, fives), {.steps = most}, name + " per epoch", wrong);
      inside += each_file(fit_of<Followed>(Automatic{}, fives), {.steps = most}, name + " plateau", wrong);
      inside += each_file(fit_of<Stepped<Numbers>>(Automatic{.accumulate_grad_batches = 2}, shuffled), {.steps = most},
                          name + " shuffled", wrong);
      inside += each_file(fit_of<Stepped<>>(Automatic{.accumulate_grad_batches = 2}, generated), {.steps = most},
                          name + " generated", wrong);
      inside += each_file(fit_of<Players>(Manual{}, fives), {.steps = most}, name + " manual", wrong);
      inside += each_file(fit_of<Unrolled>(Automatic{.tbptt = 2},
                                           [] {
                                             return std::vector<std::vector<double>>{
                                                 {1, 2, 3, 4, 5}, {6, 7}, {8}, {9, 10, 11}, {12, 13, 14, 15}};
                                           }),
                          {.steps = most}, name + " slices", wrong);
    }
  });
  INFO(wrong);
  CHECK(wrong.empty());
  CHECK(inside > 100);
}

TEST_CASE("cuts: max_time") {
  std::string wrong;
  int inside = 0;
  said([&] {
    for (int most = 1; most != 15; ++most) {
      auto const name = "max_time " + std::to_string(most);
      inside += each_file(fit_of<Drawn<>>(Automatic{}, fives), {.time = most}, name, wrong);
    }
  });
  INFO(wrong);
  CHECK(wrong.empty());
  CHECK(inside > 10);
}

TEST_CASE("cuts: the same limit again trains nothing") {
  std::string all;
  said([&] {
    for (int most = 1; most != 15; ++most) {
      auto const fit = fit_of<Drawn<>>(Automatic{}, fives);
      for (How const& how : {How{.time = most}, How{.steps = most}}) {
        files.clear();
        toy::world.files.clear();
        auto const cut = trace(fit, how);
        for (auto const& file : {files.back(), files[files.size() - 2]}) {
          auto const now = trace(fit, how, file);
          for (auto const& line : now)
            if (line.starts_with("batch") || line.starts_with("epoch") || line.starts_with("Error"))
              all += std::to_string(most) + " " + file + ": " + line + "\n";
          auto left = now.back();
          if (left != cut.back()) all += std::to_string(most) + " " + file + ": " + left + " instead of " + cut.back() + "\n";
        }
      }
    }
  });
  INFO(all);
  CHECK(all.empty());
}

TEST_CASE("cuts: stops") {
  std::string wrong;
  said([&] {
    auto const fit = fit_of<Drawn<>>(Automatic{}, fives);
    auto const last = [&](How const& how, std::string const& name) {
      auto const whole = trace(fit, {});
      files.clear();
      toy::world.files.clear();
      trace(fit, how);
      auto const now = trace(fit, {}, files.back());
      if (now != rest_of(whole, now.size()) && now.size() > 3)
        wrong += name + "\n" + reference::parting(rest_of(whole, now.size()), now) + "\n";
    };
    for (long n = 0; n != 3; ++n) {
      last({.stops = {.at = "epoch_start", .number = n}}, "epoch_start " + std::to_string(n));
      last({.stops = {.at = "epoch_end", .number = n}}, "epoch_end " + std::to_string(n));
    }
    for (long n = 1; n != 15; ++n) {
      last({.stops = {.at = "batch_end", .number = n}}, "batch_end " + std::to_string(n));
      last({.stops = {.at = "batch_start", .number = n}}, "batch_start " + std::to_string(n));
    }
  });
  INFO(wrong);
  CHECK(wrong.empty());
}

TEST_CASE("cuts: a stop that is asked for on the way to the place trains nothing") {
  std::string all;
  said([&] {
    auto const fit = fit_of<Drawn<>>(Automatic{}, fives);
    files.clear();
    toy::world.files.clear();
    auto const cut = trace(fit, {.steps = 2});
    for (auto const& file : {files.back(), files[files.size() - 2], files[files.size() - 3]}) {
      auto const now = trace(fit, {.stops = {.at = "train_start"}}, file);
      for (auto const& line : now) all += file + ": " + line + "\n";
    }
  });
  INFO(all);
  CHECK(all.find("batch_") == std::string::npos);
}

#include <fulgurite/data/combined.hpp>
namespace {
struct Placed {
  static constexpr bool batches_stay_valid = true;
  long consumed = 5;
  double from = 0;
  struct Iterator {
    using difference_type = std::ptrdiff_t;
    using value_type = double;
    Placed* of;
    double operator*() const { return of->from + static_cast<double>(of->consumed); }
    Iterator& operator++() { return ++of->consumed, *this; }
    void operator++(int) { ++of->consumed; }
    bool operator==(std::default_sentinel_t) const { return of->consumed == 5; }
  };
  Iterator begin() {
    if (consumed == 5) {
      consumed = 0;
      from = toy::draw();
    }
    return {this};
  }
  std::default_sentinel_t end() const { return {}; }
  void state(auto& archive) { archive("consumed", consumed)("from", from); }
};
/// The same, of which each batch is made where the last one was.
struct Late : Placed {
  static constexpr bool batches_stay_valid = false;
};
using Maybe = std::optional<double>;
template <class Batch>
struct Two : Drawn<> {
  Tensor training_step(Batch const& batch, auto& ctx) {
    auto l = p * Tensor(toy::draw() + (std::get<0>(batch) ? number(*std::get<0>(batch)) : 1) + number(*std::get<1>(batch)));
    ctx.log(t, l);
    return l;
  }
};
}  // namespace

TEST_CASE("cuts: more loaders and options") {
  std::string wrong;
  int inside = 0;
  said([&] {
    for (long most = 0; most != 16; ++most) {
      auto const name = "max_steps " + std::to_string(most);
      for (int const window : {1, 2, 3}) {
        Automatic const a{.accumulate_grad_batches = window};
        auto const w = " window " + std::to_string(window);
        inside += each_file(fit_of<Stepped<>>(a, [] { return Placed{}; }), {.steps = most}, name + w + " placed", wrong);
        inside += each_file(fit_of<Stepped<>>(a, [] { return Late{}; }), {.steps = most}, name + w + " late", wrong);
        inside += each_file(fit_of<Stepped<>>(a, [] { return toy::Unsized(5); }), {.steps = most}, name + w + " unsized", wrong);
        inside += each_file(fit_of<Stepped<Maybe>>(a, [] { return std::vector<Maybe>{1.0, {}, 2.0, {}, 3.0, {}}; }), {.steps = most}, name + w + " none", wrong);
        inside += each_file(fit_of<Stepped<Numbers>>(a, [] { return data::Loader{numbers, {.batch_size = 2, .shuffle = true, .workers = 2}}; }), {.steps = most}, name + w + " workers", wrong);
        for (int kind = 0; kind != 6; ++kind)
          inside += each_file(fit_of<Stepped<>>(a, fives), {.steps = most, .more = [kind](TrainerOptions& o) {
            if (kind == 0) o.check_val_every_n_epoch = 2;
            if (kind == 1) o.check_val_every_n_epoch = std::nullopt, o.val_check_interval = 7;
            if (kind == 2) o.val_check_interval = std::chrono::seconds(2);
            if (kind == 3) o.min_epochs = 2;
            if (kind == 4) o.log_every_n_steps = 1, o.val_check_interval = 1;
            if (kind == 5) o.limit_train_batches = 4;
          }}, name + w + " kind " + std::to_string(kind), wrong);
        auto const both = [] { return data::combined<data::CombineMode::max_size>(toy::batches(3), data::Loader{numbers, {.batch_size = 2, .shuffle = true}}); };
        inside += each_file(fit_of<Two<typename decltype(both())::Batch>>(a, both), {.steps = most}, name + w + " two", wrong);
      }
    }
  });
  INFO(wrong);
  CHECK(wrong.empty());
  CHECK(inside > 100);
}

TEST_CASE("cuts: twice, by one trainer whose limit is raised, and from a snapshot") {
  std::string wrong;
  said([&] {
    for (int const window : {1, 2})
      for (long a = 1; a != 9; ++a)
        for (long b = a + 1; b != 9; ++b)
          for (int const kind : {0, 1, 2}) {
            auto const run = [&](bool cut) {
              heard.clear();
              files.clear();
              toy::world.files.clear();
              toy::world.rng = 7;
              second = 0;
              auto loader = shuffled();
              using M = Stepped<Numbers>;
              M model;
              auto trainer = make_trainer<M>(options({.steps = cut ? std::optional(a) : std::nullopt}), toy::Device{}, Float32{}, Automatic{.accumulate_grad_batches = window}, Tells{});
              trainer.fit(model, loader, toy::batches(2));
              if (cut) {
                for (std::optional<long> const more : {std::optional(b), std::optional<long>()}) {
                  auto o = trainer.given_options();
                  o.max_steps = more;
                  trainer.set_options(o);
                  std::string from = files.back();
                  if (kind == 1) from = files[files.size() - 2];
                  if (kind == 2) trainer.fit(model, loader, toy::batches(2), snapshot(trainer));
                  else trainer.fit(model, loader, toy::batches(2), CkptPath{from});
                }
              }
              std::string left = std::to_string(trainer.progress().epoch) + " " + std::to_string(trainer.progress().global_step) + " " + std::to_string(toy::world.rng) + " " + text(model.p.value());
              return left;
            };
            auto const whole = run(false), now = run(true);
            if (now != whole) wrong += std::to_string(window) + " " + std::to_string(a) + " " + std::to_string(b) + " " + std::to_string(kind) + ": " + now + " instead of " + whole + "\n";
          }
  });
  INFO(wrong);
  CHECK(wrong.empty());
}

TEST_CASE("cuts: a stop or a time inside a window: every batch is trained once") {
  std::string wrong;
  said([&] {
    for (int const window : {2, 3})
      for (int most = 1; most != 15; ++most)
        for (How const& how : {How{.time = most}, How{.stops = {.at = "batch_end", .number = most}}}) {
          auto const fit = fit_of<Stepped<>>(Automatic{.accumulate_grad_batches = window}, fives);
          files.clear();
          toy::world.files.clear();
          trace(fit, how);
          auto const all = files;
          for (auto const& file : all) {
            if (!how.time && file != all.back() && file != all[all.size() - 2]) continue;
            auto const now = trace(fit, {}, file);
            if (!now.back().starts_with("left 3 epochs") || now.back().find("15 batches") == std::string::npos) wrong += std::to_string(most) + " " + file + ": " + now.back() + "\n";
          }
        }
  });
  INFO(wrong);
  CHECK(wrong.empty());
}
