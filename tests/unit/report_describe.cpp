// The description of a trainer: the program that its types make, as a constant, and what its options switch off.
#include <catch2/catch_test_macros.hpp>

#include <array>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fulgurite/callback/early_stopping.hpp>
#include <fulgurite/callback/learning_rate_monitor.hpp>
#include <fulgurite/report/describe.hpp>
#include <fulgurite/schedule/schedule.hpp>

#include "models.hpp"
#include "rows.hpp"

using namespace fulgurite;

namespace {

struct Net : toy::P {
  static constexpr Metric<"vl"> vl{.prog_bar = true};
  using Metrics = MetricList<toy::P::loss, vl>;
  void validation_step(double, auto& ctx) { ctx.log(vl, 1.0); }
  void on_train_epoch_end() {}
  auto configure_optimizers() { return scheduled(toy::Sgd{{p}}, schedule::Cosine{10}); }
};
struct Waits {
  void on_train_epoch_end() {}
};
using Described = Trainer<Net, toy::Device, Float32, Automatic, EarlyStopping<Metric<"vl">>, Waits, toy::Rows>;

constexpr bool has(std::string_view text, std::string_view line) { return text.find(line) != text.npos; }

}  // namespace

namespace own_name {
/// Its own name is that of a list which callbacks may declare.
struct Watches {
  void on_train_start() {}
};
}  // namespace own_name

TEST_CASE("a callback may be called Watches") {
  auto const trainer =
      make_trainer<toy::P>({.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, own_name::Watches{});
  CHECK(has(describe(trainer), "Watches"));
}

TEST_CASE("the description is a constant: who hears what, in which order, and what is off") {
  constexpr auto text = description<Described>;
  static_assert(has(text, "Trainer of Net\n"));
  static_assert(has(text, "optimizers    Sgd with Cosine\n"));
  static_assert(has(text, "metrics       loss, vl (bar)\n"));
  static_assert(has(text, "on_train_epoch_end            Waits, Net, EarlyStopping\n"));
  static_assert(has(text, "on_validation_end               EarlyStopping\n"));
  static_assert(has(text, "monitor     EarlyStopping             reads vl"));
  static_assert(has(text, "test                            the model has no test_step\n"));
  static_assert(!has(text, "on_test_start"));
  static_assert(has(text, "lr_scheduler_step"));
  static_assert(has(text, "  schedules\n"));
  static_assert(!has(description<Trainer<toy::P, toy::Device, Float32, Automatic>>, "schedule"));
  static_assert(has(text, "state of EarlyStopping\n"));
  static_assert(has(text, "not saved, by choice\n  Rows\n"));
  INFO(text);
  SUCCEED();
}

TEST_CASE("describe() adds what the options of this trainer switch off") {
  auto trainer =
      toy::train<Net>({.max_epochs = 3, .limit_val_batches = 0, .num_sanity_val_steps = 0, .fast_dev_run = 0},
                      {.accumulate_grad_batches = 4, .clip = ClipNorm{0.5}}, EarlyStopping{Net::vl}, toy::Rows{});
  auto const text = describe(trainer);
  CHECK(text.starts_with(description<decltype(trainer)>));
  CHECK(has(text, "  batches a step: 4\n  gradients limited by norm 0.5"));
  CHECK(has(text, "  validation: off, its limit is 0\n"));
  CHECK(has(text, "  sanity check: off, num_sanity_val_steps is 0\n"));
  auto quick = toy::train<Net>({.max_epochs = 3, .fast_dev_run = 2}, {}, EarlyStopping{Net::vl}, toy::Rows{});
  CHECK(has(describe(quick), "fast_dev_run = 2: idle are"));
  CHECK(has(describe(quick), "Rows"));
}

namespace {
/// What is asked of callbacks alone, and of strategies.
struct Saves {
  void before_save(auto&) {}
  void after_save(auto&) {}
  bool limits_time() const { return false; }
};
struct Wraps : toy::Device {
  void pre_backward(toy::Tensor&) {}
};
/// A callback that has much to say of what it reads.
struct Talks {
  static constexpr auto letters = [] {
    std::array<char, 20000> all{};
    all.fill('x');
    return all;
  }();
  static constexpr std::string_view reads{letters.data(), letters.size()};
  void on_train_start() {}
};
}  // namespace

TEST_CASE("a description says who has the functions that are no events, and is as long as it has to be") {
  auto const trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, Wraps{}, Float32{}, Automatic{}, Saves{}, Talks{});
  std::string const text = describe(trainer);
  auto const says = [&](std::string name, std::string const& who) {
    name.resize(32, ' ');
    return text.find("  " + name + who + "\n") != text.npos;
  };
  CHECK(says("before_save", "Saves"));
  CHECK(says("after_save", "Saves"));
  CHECK(says("limits_time", "Saves"));
  CHECK(text.find("      pre_backward                Wraps\n") != text.npos);
  CHECK(text.size() > 20000);
}

namespace {
/// A logger, an optimizer, a schedule, a strategy and loaders with functions that are no events.
struct Writes {
  using Stateless = ByChoice;
  void log_metrics(std::span<Scalar const>, long) {}
  void log_hyperparams(auto const&) {}
  void finalize(Status) {}
  std::string state_key() const { return "writes"; }
  void continue_in(std::filesystem::path const&) {}
  void do_not_continue() {}
  std::vector<std::filesystem::path> earlier_runs(TrainerOptions const&) const { return {}; }
  std::vector<std::filesystem::path> last_checkpoints() const { return {}; }
  std::filesystem::path best_model_path() const { return {}; }
};
struct Heavy : toy::Sgd {
  double momentum(std::size_t) const { return 0.9; }
  void set_momentum(std::size_t, double) {}
};
struct Warm {
  using Stateless = ByChoice;
  double move = 3;  // a number: no function of a schedule that sets rates
  std::string observe = {};
  double operator()(long) const { return 1; }
  void attach(auto&) {}
};
struct Trained : toy::P {
  auto configure_optimizers() { return scheduled(Heavy{{{p}}}, Warm{}); }
  void hyperparameters(auto& list) const { list("rate", 0.1); }
};
struct Tells : toy::Device {
  std::vector<std::string> account() const { return {"three products"}; }
};
struct Shuffles : toy::Unsized {
  using toy::Unsized::Unsized;
  void set_epoch(long) {}
  bool in_order(bool) { return true; }
};
struct Module {
  void prepare_data() {}
  std::vector<double> transfer_batch_to_device(std::vector<double> batch) { return batch; }
  std::vector<double> train_dataloader() { return {1.0}; }
  Shuffles val_dataloader() { return Shuffles(2); }
  std::tuple<Shuffles, std::vector<double>> test_dataloader() { return {Shuffles(2), {1.0}}; }
};
}  // namespace

TEST_CASE("a description says who has what loggers, optimizers, schedules, strategies and loaders are asked for") {
  auto const trainer =
      make_trainer<Trained>(TrainerOptions{.max_epochs = 1}, Tells{}, Float32{}, Automatic{}, Writes{});
  std::string const text = describe(trainer, Module{}, toy::batches(3), Shuffles(2));
  auto const says = [&](std::string name, std::size_t column, std::string const& what) {
    name.resize(column, ' ');
    return text.find("  " + name + what + "\n") != text.npos;
  };
  INFO(text);
  CHECK(says("log_hyperparams", 32, "Writes"));
  CHECK(says("log_metrics", 32, "Writes"));
  CHECK(says("finalize", 32, "Writes"));
  CHECK(says("Tells", 32, "world, account"));
  CHECK(says("Trained", 32, "hyperparameters"));
  CHECK(says("Writes", 32, "state_key, last_checkpoints, best_model_path, do_not_continue, continue_in, earlier_runs"));
  CHECK(says("Heavy", 32, "momentum, set_momentum, state"));
  CHECK(says("Warm", 32, "attach"));
  CHECK(says("prepare_data", 22, "Module"));
  CHECK(says("transfer_batch_to_device", 25, "Module"));
  CHECK(says("val_dataloader", 22, "Shuffles: set_epoch, in_order"));
  CHECK(says("test_dataloader", 22, "Shuffles: set_epoch, in_order"));
  CHECK(text.find("  test_dataloader       vector: size") != text.npos);
  CHECK(says("loader", 22, "Shuffles: set_epoch, in_order"));
  CHECK(text.find("  train_dataloader      vector: size") != text.npos);
  CHECK(text.ends_with("strategy\n  three products\n"));
}
