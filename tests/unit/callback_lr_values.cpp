#include <fulgurite/callback/learning_rate_monitor.hpp>

#include <rows.hpp>

#include "callback_run.hpp"
#include "callback_stderr.hpp"

using namespace fulgurite;
using Values = std::map<std::string, double>;

namespace {
/// An optimizer whose groups have names, momentum and decay, as far as it is told.
template <bool Rich>
struct Grouped : toy::Sgd {
  static constexpr std::string_view name() { return Rich ? "Rich" : "Plain"; }
  std::vector<std::string> names = {""};
  std::size_t groups() const { return names.size(); }
  double lr(std::size_t) const { return 0.5; }
  void set_lr(std::size_t, double) {}
  std::string group_name(std::size_t g) const { return names[g]; }
  std::optional<double> momentum(std::size_t g) const
    requires Rich
  {
    return 0.9 + static_cast<double>(g);
  }
  std::optional<double> weight_decay(std::size_t) const
    requires Rich
  {
    return 0.01;
  }
};
template <bool Rich>
struct Net {
  toy::Tensor p = toy::Tensor::parameter(0.0);
  std::vector<std::string> names = {""};
  toy::Tensor training_step(double) { return -p; }
  Grouped<Rich> configure_optimizers() { return Grouped<Rich>{{.params = {p}}, names}; }
};

struct Told {
  std::map<std::string, std::vector<double>> rates;
  Values momentum, decay, logged;
  std::string warning, error;
};
template <bool Rich>
Told told(LearningRateMonitorOptions how, std::vector<std::string> names = {""}) {
  Told all;
  all.warning = said([&] {
    Net<Rich> net{.names = std::move(names)};
    auto trainer = make_trainer<Net<Rich>>(TrainerOptions{.max_epochs = 1, .log_every_n_steps = 1}, toy::Device{},
                                           Float32{}, Automatic{}, LearningRateMonitor{how}, toy::Rows{});
    all.error = error_of([&] { trainer.fit(net, toy::batches(2)); });
    auto const& monitor = trainer.template callback<LearningRateMonitor>();
    all.rates = monitor.lrs();
    all.momentum = monitor.last_momentum_values();
    all.decay = monitor.last_weight_decay_values();
    for (auto const& row : trainer.template callback<toy::Rows>().rows)
      for (auto const& [name, value] : row.cells) all.logged[name] = value;
  });
  return all;
}
}  // namespace

TEST_CASE("lr monitor: what was logged can be read afterwards") {
  auto const all = told<true>({.logging_interval = Interval::step});
  CHECK(all.rates == std::map<std::string, std::vector<double>>{{"lr-Rich", {0.5, 0.5}}});
  CHECK(all.momentum.empty());
  CHECK(all.logged == Values{{"epoch", 0}, {"lr-Rich", 0.5}});
}

TEST_CASE("lr monitor: momentum and weight decay, by group") {
  auto const all = told<true>({.log_momentum = true, .log_weight_decay = true}, {"", ""});
  CHECK(all.momentum == Values{{"lr-Rich/pg1-momentum", 0.9}, {"lr-Rich/pg2-momentum", 1.9}});
  CHECK(all.decay == Values{{"lr-Rich/pg1-weight_decay", 0.01}, {"lr-Rich/pg2-weight_decay", 0.01}});
  CHECK(all.logged.at("lr-Rich/pg2-momentum") == 1.9);
  CHECK(all.warning.empty());
}

TEST_CASE("lr monitor: asked for what an optimizer lacks, it says so once") {
  auto const all = told<false>({.log_momentum = true, .log_weight_decay = true});
  CHECK(all.warning ==
        "warning: [fulgurite.callback.learning_rate] LearningRateMonitor: Plain has no momentum, 0 is logged\n"
        "warning: [fulgurite.callback.learning_rate] LearningRateMonitor: Plain has no weight decay, "
        "none is logged\n");
  CHECK(all.momentum == Values{{"lr-Plain-momentum", 0}});
  CHECK(all.decay.empty());
}

TEST_CASE("lr monitor: groups by their own names; two alike are refused") {
  CHECK(told<true>({}, {"body", ""}).logged == Values{{"epoch", 0}, {"lr-Rich/body", 0.5}, {"lr-Rich/pg2", 0.5}});
  CHECK(told<true>({}, {"body"}).logged == Values{{"epoch", 0}, {"lr-Rich/body", 0.5}});
  CHECK(
      told<true>({}, {"body", "body"})
          .error.starts_with("[fulgurite.callback.group_names] LearningRateMonitor: two parameter groups of lr-Rich"));
}
