// Many models in one process: bits, rungs, failures, the end by a signal, and what is left.
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fulgurite/callback/early_stopping.hpp>
#include <fulgurite/data/loader.hpp>
#include <fulgurite/tuner/sweep.hpp>

#include "apart.hpp"
#include "models.hpp"

using namespace fulgurite;
using tune::Fate;
using tune::values;

namespace {

struct Setting {
  double rate = 0.1;
  long kind = 0;
};

/// Draws in each step, from the thread's generator.
struct Net {
  static constexpr Metric<"val/loss"> val_loss{};
  static constexpr Metric<"never"> never{};
  using Metrics = MetricList<val_loss, never>;
  Setting setting;
  toy::Tensor p = toy::Tensor::parameter(toy::draw_apart());
  std::function<void(Net&)> at_step = nullptr;
  bool training = true;
  explicit Net(Setting const& s) : setting(s) {}
  toy::Tensor training_step(double batch) {
    if (at_step) at_step(*this);
    return p * p * toy::Tensor(0.01 * batch + toy::draw_apart());
  }
  void validation_step(double, auto& ctx) { ctx.log(val_loss, p * p); }
  auto configure_optimizers() {
    return scheduled(toy::Sgd{.params = {p}, .rate = setting.rate, .momentum = 0.5},
                     [](long n) { return 1.0 / (1.0 + static_cast<double>(n)); });
  }
};

/// A sample is its place; the order is drawn for each epoch.
struct Samples {
  std::size_t size() const { return 12; }
  double operator[](std::size_t i) const { return static_cast<double>(i); }
};
struct Sum {
  double operator()(std::vector<double> const& all) const {
    double sum = 0;
    for (double const x : all) sum = 2 * sum + x;
    return sum / 1000;
  }
};
auto shuffled() {
  return data::Loader{Samples{}, data::LoaderOptions{.batch_size = 3, .shuffle = true, .seed = 5}, Sum{}};
}

std::vector<double> const checks = toy::batches(2);

/// A net whose steps do something else first.
Net acting(Setting const& setting, std::function<void(Net&)> at_step) {
  Net net(setting);
  net.at_step = std::move(at_step);
  return net;
}

template <class Probe, class... Cs>
auto member(Net net, Probe probe, TrainerOptions options, Cs... callbacks) {
  return tune::Member{
      std::move(net),
      make_trainer<Net>(options, toy::ApartDevice{}, Float32{}, Automatic{}, probe, std::move(callbacks)...),
      shuffled(), tune::shared(checks)};
}
auto maker(int epochs) {
  return [=](Setting const& setting, auto probe) { return member(Net(setting), probe, {.max_epochs = epochs}); };
}

tune::Space<Setting> rates(std::vector<double> const& all) { return tune::grid(values<&Setting::rate>(all)); }

/// What a member comes to where it is trained by itself, after seeding.
template <class Make>
std::pair<double, std::uint64_t> alone(Make const& make, Setting const& setting, std::uint64_t seed) {
  toy::put_random(seed);
  auto one = make(setting, tune::Probe{Net::val_loss});
  one.fit();
  return {one.model.p.value(), toy::random_now()};
}

std::string file_text(std::filesystem::path const& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

template <class Results>
auto const& row_of(Results const& results, std::size_t member) {
  for (auto const& row : results.rows())
    if (row.member == member) return row;
  throw std::runtime_error("no such member");
}

}  // namespace

TEST_CASE("4 members on 2 threads, with an order that is drawn: each has the bits that it has alone") {
  auto const space = rates({0.1, 0.2, 0.3, 0.4});
  auto const make = maker(3);
  auto const results = tune::sweep(make, space, Net::val_loss, {.mode = Mode::min, .threads = 2, .seed = 77});
  auto const before = toy::random_now();
  for (std::size_t i = 0; i != 4; ++i) {
    auto const [p, random] = alone(make, space.settings[i], 77);
    CHECK(row_of(results, i).value == p * p);
    if (i == results.best().member) CHECK(results.model().p.value() == p);
  }
  toy::put_random(before);
  CHECK(row_of(results, 0).value != row_of(results, 1).value);
}

TEST_CASE("the process's random numbers are where they were") {
  auto const before = toy::random_now();
  tune::sweep(maker(2), rates({0.1, 0.2}), Net::val_loss, {.mode = Mode::min, .threads = 2});
  CHECK(toy::random_now() == before);
}

TEST_CASE("rows are the same on one thread and on many") {
  auto const space = rates({0.05, 0.3, 0.1, 0.2, 0.4, 0.15, 0.25});
  auto const at = [&](int threads) {
    auto const results = tune::sweep(maker(4), space, Net::val_loss,
                                     {.mode = Mode::min, .rungs = {1, 2}, .keep = 0.5, .threads = threads});
    std::vector<std::pair<std::size_t, std::vector<double>>> rows;
    for (auto const& row : results.rows()) rows.emplace_back(row.member, row.curve);
    return rows;
  };
  auto const one = at(1);
  CHECK(one == at(2));
  CHECK(one == at(7));
}

TEST_CASE("at each rung the best part goes on, from where it was; the others end there") {
  std::vector<double> all;
  for (int i = 1; i <= 9; ++i) all.push_back(0.02 * i);
  auto const plain = tune::sweep(maker(5), rates(all), Net::val_loss, {.mode = Mode::min, .threads = 2});
  auto const results =
      tune::sweep(maker(5), rates(all), Net::val_loss, {.mode = Mode::min, .rungs = {1, 3}, .threads = 2});
  std::vector<int> epochs;
  for (auto const& row : results.rows()) {
    epochs.push_back(row.epochs());
    CHECK(row.fate == (row.epochs() == 5 ? Fate::completed : Fate::left));
    auto const& whole = row_of(plain, row.member).curve;
    for (std::size_t e = 0; e != row.curve.size(); ++e) CHECK(row.curve[e] == whole[e]);
  }
  CHECK(epochs == std::vector<int>{5, 3, 3, 1, 1, 1, 1, 1, 1});
  CHECK(results.rows()[0].rungs == 2);
  CHECK(results.rows()[2].rungs == 1);
  // Those that went on were the best after one epoch.
  double worst_kept = 0, best_left = 1e9;
  for (auto const& row : results.rows())
    if (row.rungs > 0) worst_kept = std::max(worst_kept, row.curve[0]);
    else best_left = std::min(best_left, row.curve[0]);
  CHECK(worst_kept < best_left);
  CHECK(results.trainer().progress().epoch == 5);
  CHECK(results.model().p.value() * results.model().p.value() == *results.best().value);
}

TEST_CASE("the greatest value is the best where that was said; of equals the first") {
  auto const results = tune::sweep(maker(1), rates({0.3, 0.1, 0.1}), Net::val_loss, {.mode = Mode::max, .threads = 2});
  CHECK(results.best().member == 1);
  CHECK(results.rows()[1].member == 2);
  CHECK(results.setting().rate == 0.1);
}

TEST_CASE("the best member's trainer goes on after the sweep, as any other") {
  auto results =
      tune::sweep(maker(2), rates({0.1, 0.2, 0.3}), Net::val_loss, {.mode = Mode::min, .rungs = {1}, .threads = 2});
  auto options = results.trainer().given_options();
  options.max_epochs = 3;
  results.trainer().set_options(options);
  auto train = shuffled();
  results.trainer().fit(results.model(), train, checks);
  CHECK(results.trainer().progress().epoch == 3);
  CHECK(results.best().epochs() == 2);
}

TEST_CASE("a rung at the last epoch decides nothing, and ends nobody") {
  auto const results = tune::sweep(maker(2), rates({0.1, 0.2, 0.3, 0.4}), Net::val_loss,
                                   {.mode = Mode::min, .rungs = {2}, .threads = 2});
  for (auto const& row : results.rows()) CHECK(row.fate == Fate::completed);
}

TEST_CASE("a member that ends by itself is judged by its last value at the rungs to come") {
  auto const make = [](Setting const& setting, auto probe) {
    return member(Net(setting), probe, {.max_epochs = 4},
                  EarlyStopping{Net::val_loss, {.patience = 1, .stopping_threshold = setting.kind == 1 ? 1e9 : -1.0}});
  };
  auto const results = tune::sweep(make, tune::grid(values<&Setting::kind>(0, 1, 0, 0)), Net::val_loss,
                                   {.mode = Mode::min, .rungs = {2}, .keep = 0.5, .threads = 2});
  auto const& stopped = row_of(results, 1);
  CHECK(stopped.fate == Fate::completed);
  CHECK(stopped.epochs() == 1);
  CHECK(stopped.rungs == 0);  // its value is that of one epoch, the others' of two
  int left = 0;
  for (auto const& row : results.rows()) left += row.fate == Fate::left;
  CHECK(left == 1);
}

TEST_CASE("a member that throws is a row that says so, wherever it throws; the others go on") {
  auto const make = [](Setting const& setting, auto probe) {
    if (setting.kind == 1) throw std::runtime_error("cannot be made");
    auto net = acting(setting, [](Net& self) {
      if (self.setting.kind == 2) throw std::bad_alloc();
      if (self.setting.kind == 4) throw 7;
    });
    if (setting.kind == 3) net.p.set(std::numeric_limits<double>::infinity());
    return member(std::move(net), probe, {.max_epochs = 2});
  };
  auto const results = tune::sweep(make, tune::grid(values<&Setting::kind>(0, 1, 2, 3, 4, 0)), Net::val_loss,
                                   {.mode = Mode::min, .rungs = {1}, .keep = 0.5, .threads = 2});
  CHECK(results.best().member == 0);
  CHECK(results.rows()[1].member == 5);
  CHECK(results.rows()[1].fate == Fate::left);
  for (std::size_t i = 2; i != 6; ++i) CHECK(results.rows()[i].fate == Fate::failed);
  CHECK(row_of(results, 1).why == "cannot be made");
  CHECK(row_of(results, 2).why == std::bad_alloc().what());
  CHECK(row_of(results, 3).why.starts_with("[fulgurite.loop.non_finite]"));
  CHECK(row_of(results, 4).why == "an exception that is no std::exception");
  auto const table = results.table();
  CHECK(table.find("failed: cannot be made") != std::string::npos);
  CHECK(table.find("rank | member | kind | val/loss") == 0);
}

TEST_CASE("where all members fail, the best one is asked for in vain") {
  auto const make = [](Setting const& setting, auto probe) {
    return member(acting(setting, [](Net&) { throw std::runtime_error("no step"); }), probe, {.max_epochs = 2});
  };
  auto const results = tune::sweep(make, rates({0.1, 0.2}), Net::val_loss, {.mode = Mode::min, .rungs = {1}});
  std::string said;
  CHECK(toy::refusal([&] { results.model(); }, &said) == "fulgurite.tune.none");
  CHECK(said.find("no step") != std::string::npos);
}

TEST_CASE("a metric that nobody logs fails its member, at a rung or at the end") {
  auto const sweep = [](std::vector<int> rungs) {
    auto const make = [](Setting const& setting, auto probe) { return member(Net(setting), probe, {.max_epochs = 2}); };
    return tune::sweep(make, rates({0.1}), Net::never, {.mode = Mode::min, .rungs = std::move(rungs)}).rows()[0].why;
  };
  CHECK(sweep({}).find("never") != std::string::npos);
  CHECK(sweep({1}).starts_with("[fulgurite.tune.no_value]"));
}

TEST_CASE("a member whose value is NaN ranks behind those with a value, whatever it has passed") {
  using tune::Fate;
  tune::Standing const none{.fate = Fate::completed, .rungs = 1, .value = std::nan("")},
      cut{.fate = Fate::interrupted, .value = 2.0}, failed{.fate = Fate::failed};
  CHECK(tune::before(Mode::min, cut, none));
  CHECK_FALSE(tune::before(Mode::min, none, cut));
  CHECK(tune::before(Mode::min, none, failed));
}

TEST_CASE("Ctrl-C ends all members after their batch, and what is known is there") {
  std::atomic<long> steps = 0;
  auto const make = [&](Setting const& setting, auto probe) {
    auto const raises = [&](Net& net) {
      if (net.setting.kind == 1 && ++steps == 10) std::raise(SIGINT);
    };
    return member(acting(setting, raises), probe, {.max_epochs = 1000});
  };
  auto const results = tune::sweep(make, tune::grid(values<&Setting::kind>(1, 0, 0, 0)), Net::val_loss,
                                   {.mode = Mode::min, .threads = 1});
  CHECK(results.signal() == SIGINT);
  auto const& first = results.rows()[0];
  CHECK(first.member == 0);
  CHECK(first.fate == Fate::interrupted);
  CHECK(first.epochs() >= 2);
  CHECK(results.model().setting.kind == 1);
  for (std::size_t i = 1; i != 4; ++i) CHECK(results.rows()[i].fate == Fate::not_started);
}

TEST_CASE("Ctrl-C ends members that wait at a rung, too") {
  auto const make = [](Setting const& setting, auto probe) {
    auto const raises = [n = 0](Net& net) mutable {
      if (net.setting.kind == 1 && ++n == 3) std::raise(SIGTERM);
    };
    return member(acting(setting, raises), probe, {.max_epochs = 1000});
  };
  auto const results = tune::sweep(make, tune::grid(values<&Setting::kind>(0, 1)), Net::val_loss,
                                   {.mode = Mode::min, .rungs = {1}, .threads = 1});
  CHECK(results.signal() == SIGTERM);
  CHECK(row_of(results, 0).fate == Fate::interrupted);
  CHECK(row_of(results, 0).epochs() == 1);
  CHECK(row_of(results, 1).epochs() == 0);
  CHECK(results.best().member == 0);
}

TEST_CASE("options that mean nothing are refused before anything is made") {
  int made = 0;
  auto const make = [&](Setting const& setting, auto probe) {
    ++made;
    return member(Net(setting), probe, {.max_epochs = 2});
  };
  auto const refused = [&](tune::SweepOptions const& options) {
    return toy::refusal([&] { tune::sweep(make, rates({0.1}), Net::val_loss, options); });
  };
  CHECK(refused({.mode = Mode::min, .rungs = {0}}) == "fulgurite.tune.rungs");
  CHECK(refused({.mode = Mode::min, .rungs = {-1, 2}}) == "fulgurite.tune.rungs");
  CHECK(refused({.mode = Mode::min, .rungs = {1, 1}}) == "fulgurite.tune.rungs");
  CHECK(refused({.mode = Mode::min, .rungs = {3, 1}}) == "fulgurite.tune.rungs");
  CHECK(refused({.mode = Mode::min, .keep = 0}) == "fulgurite.tune.keep");
  CHECK(refused({.mode = Mode::min, .keep = 1}) == "fulgurite.tune.keep");
  CHECK(refused({.mode = Mode::min, .keep = -1}) == "fulgurite.tune.keep");
  CHECK(refused({.mode = Mode::min, .threads = -1}) == "fulgurite.tune.threads");
  CHECK(toy::refusal([&] { tune::sweep(make, tune::Space<Setting>{}, Net::val_loss, {.mode = Mode::min}); }) ==
        "fulgurite.tune.empty");
  CHECK(made == 0);
}

TEST_CASE("options of a trainer that a rung cannot keep are refused before a step") {
  std::atomic<long> steps = 0;
  auto const refused = [&](TrainerOptions const& options) {
    auto const make = [&](Setting const& setting, auto probe) {
      return member(acting(setting, [&](Net&) { ++steps; }), probe, options);
    };
    return toy::refusal([&] {
      tune::sweep(make, rates({0.1, 0.2, 0.3}), Net::val_loss, {.mode = Mode::min, .rungs = {1, 3}, .threads = 2});
    });
  };
  CHECK(refused({.max_epochs = 2}) == "fulgurite.tune.rungs");
  CHECK(refused({.max_epochs = 4, .min_epochs = 1}) == "fulgurite.tune.minima");
  CHECK(refused({.max_epochs = 4, .min_steps = 1}) == "fulgurite.tune.minima");
  CHECK(refused({.max_epochs = 4, .max_time = std::chrono::hours{1}}) == "fulgurite.tune.max_time");
  CHECK(steps == 0);
  CHECK(refused({.max_epochs = 3}).empty());
}

namespace {
/// A device that turns out to be a GPU.
struct Surprise : toy::ApartDevice {
  static constexpr Known on_gpu = Known::at_run_time;
  bool gpu = true;
  bool is_on_gpu() const { return gpu; }
};
}  // namespace

TEST_CASE("members that find themselves on a GPU end the sweep before a step; on the CPU they train") {
  std::atomic<long> steps = 0;
  auto const sweep = [&](bool gpu) {
    auto const make = [&](Setting const& setting, auto probe) {
      Surprise device;
      device.gpu = gpu;
      return tune::Member{acting(setting, [&](Net&) { ++steps; }),
                          make_trainer<Net>(TrainerOptions{.max_epochs = 1}, device, Float32{}, Automatic{}, probe),
                          shuffled(), tune::shared(checks)};
    };
    tune::sweep(make, rates({0.1, 0.2}), Net::val_loss, {.mode = Mode::min, .threads = 2});
  };
  std::string sentence;
  CHECK(toy::refusal([&] { sweep(true); }, &sentence) == "fulgurite.tune.device");
  CHECK(sentence.ends_with("use SingleDevice{cpu}"));
  CHECK(steps == 0);
  sweep(false);
  CHECK(steps == 8);
}

TEST_CASE("whoever draws from the process's random numbers ends the sweep with an Error") {
  auto const make = [](Setting const& setting, auto probe) {
    return member(acting(setting, [](Net&) { ++toy::process_random; }), probe, {.max_epochs = 2});
  };
  CHECK(toy::refusal([&] { tune::sweep(make, rates({0.1, 0.2}), Net::val_loss, {.mode = Mode::min}); }) ==
        "fulgurite.tune.process_random");
}

TEST_CASE("a CSV file has the curves; a cell that holds commas is quoted") {
  auto const make = [](Setting const& setting, auto probe) {
    if (setting.rate == 0.2) throw std::runtime_error("no, \"never\"");
    return member(Net(setting), probe, {.max_epochs = 2});
  };
  auto const results = tune::sweep(make, rates({0.1, 0.2}), Net::val_loss, {.mode = Mode::min});
  auto const path = std::filesystem::temp_directory_path() / "fulgurite_sweep.csv";
  results.save_csv(path);
  auto const text = file_text(path);
  std::filesystem::remove(path);
  CHECK(text == results.csv());
  CHECK(text.starts_with("rank,member,rate,val/loss,epochs,seconds,fate,why,epoch 1,epoch 2\n1,0,0.1,"));
  CHECK(text.find("\n2,1,0.2,,0,") != std::string::npos);
  CHECK(text.ends_with(",failed,\"no, \"\"never\"\"\",,\n"));
  CHECK(text.find("," + exact_number(results.rows()[0].curve[0]) + "," + exact_number(results.rows()[0].curve[1]) +
                  "\n") != std::string::npos);
}

TEST_CASE("the plot has the curve of each member that ended an epoch, and names the best") {
  auto const make = [](Setting const& setting, auto probe) {
    if (setting.rate == 0.2) throw std::runtime_error("never");
    return member(Net(setting), probe, {.max_epochs = 2});
  };
  auto const results = tune::sweep(make, rates({0.1, 0.2, 0.3, 0.15, 0.05}), Net::val_loss, {.mode = Mode::min});
  auto const plot = results.plot();
  REQUIRE(plot.curves.size() == 4);
  CHECK(plot.curves[0].label == "rate 0.3");
  CHECK_FALSE(plot.curves[0].faint);
  CHECK(plot.curves[3].label.empty());
  CHECK(plot.curves[3].faint);
  CHECK(plot.curves[0].x == std::vector<double>{1, 2});
  CHECK(plot.curves[0].y == results.best().curve);
  REQUIRE(plot.marks.size() == 1);
  CHECK(plot.marks[0].y == *results.best().value);
  CHECK(plot.svg().find("val/loss") != std::string::npos);
}

TEST_CASE("of members without rungs only the best one's model is kept") {
  static std::atomic<int> alive;
  static std::atomic<int> most;
  alive = most = 0;
  struct Counted {
    using Stateless = ByChoice;
    bool counts = true;
    Counted() { most = std::max(most.load(), ++alive); }
    Counted(Counted&& other) : counts(std::exchange(other.counts, false)) {}
    Counted(Counted const&) { most = std::max(most.load(), ++alive); }
    ~Counted() { alive -= counts ? 1 : 0; }
    void on_train_end() {}
  };
  auto const make = [](Setting const& setting, auto probe) {
    return member(Net(setting), probe, {.max_epochs = 1}, Counted{});
  };
  {
    auto const results =
        tune::sweep(make, rates({0.1, 0.4, 0.2, 0.3, 0.05}), Net::val_loss, {.mode = Mode::min, .threads = 1});
    CHECK(alive == 1);
    CHECK(most <= 4);  // the best so far, the one that trains, and temporaries while it is made
  }
  CHECK(alive == 0);
}
