// Several schedules of one optimizer: factors are multiplied, one that sets rates goes on from the rates as they are,
// each moves when it is due and follows its own metric; what files keep of them, and what a program that is wrong about
// one of them is told.
#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fulgurite/core/archive.hpp>
#include <fulgurite/report/describe.hpp>
#include <fulgurite/schedule/schedule.hpp>

#include "models.hpp"

using namespace fulgurite;
using schedule::LinearWarmup;
using schedule::ReduceOnPlateau;

namespace {

constexpr Metric<"val/loss"> val_loss{};
constexpr Metric<"nobody's"> undeclared{};

double half(long moves) { return std::pow(0.5, static_cast<double>(moves)); }
struct Quarters {
  double operator()(long moves) const { return std::pow(0.25, static_cast<double>(moves)); }
};
/// Sets all rates to one of its own.
struct Sets {
  static constexpr bool sets_rates = true;
  double to;
  void move(auto& optimizer) {
    for (std::size_t g = 0; g != optimizer.groups(); ++g) optimizer.set_lr(g, to);
  }
  void state(auto& archive) { archive("to", to); }
};
/// Does not say that it sets rates.
struct Unsaid {
  double operator()(long) const { return 1; }
  void move(auto&) {}
};
auto plateau() { return ReduceOnPlateau{val_loss, {.factor = 0.5, .patience = 0}}; }

/// Two groups with rates and momenta of their own.
struct Groups {
  std::vector<double> rates = {1.0, 0.25};
  std::vector<double> momenta = {0.5, 0.5};
  std::size_t groups() const { return rates.size(); }
  double lr(std::size_t group) const { return rates[group]; }
  void set_lr(std::size_t group, double to) { rates[group] = to; }
  double momentum(std::size_t group) const { return momenta[group]; }
  void set_momentum(std::size_t group, double to) { momenta[group] = to; }
};
template <class Entry>
struct Held : loop::OptimizerSet<toy::Backend, OptimizerList<Entry>> {
  using Set = loop::OptimizerSet<toy::Backend, OptimizerList<Entry>>;
  explicit Held(Entry entry) : Set(optimizers(std::move(entry))) {}
  auto const& rates() const { return std::get<0>(this->optimizers).rates; }
  auto& momenta() { return std::get<0>(this->optimizers).momenta; }
  template <std::size_t I>
  auto& at() {
    return std::get<I>(this->schedulers);
  }
};

/// A step's halving at each second step, an epoch's quarter at each second epoch, a plateau at each epoch's end.
struct Three {
  using Metrics = MetricList<val_loss>;
  toy::Tensor p = toy::Tensor::parameter(0.0);
  std::vector<double> losses = {3, 3, 2, 2};
  std::vector<double> rates = {};
  std::size_t validations = 0;

  toy::Tensor training_step(double, auto& ctx) {
    rates.push_back(ctx.optimizer().lr(0));
    return -p;
  }
  void validation_step(double, auto& ctx) { ctx.log(val_loss, losses.at(validations++)); }
  auto configure_optimizers() {
    auto const per_step = scheduled(toy::Sgd{{p}}, half, {.interval = Interval::step, .frequency = 2});
    return scheduled(scheduled(per_step, Quarters{}, {.frequency = 2}), plateau());
  }
};
/// Moves them itself, twice.
struct MovesThem : Three {
  std::vector<std::string> asked = {};
  void lr_scheduler_step(auto& scheduler, auto& ctx) {
    using S = std::remove_reference_t<decltype(scheduler)>;
    asked.push_back(S::observes ? "plateau" : scheduler.interval() == Interval::step ? "step" : "epoch");
    if constexpr (S::observes) scheduler.step(*ctx.value(val_loss));
    else scheduler.step();
  }
};
struct ByHand : Three {
  void training_step(double, auto& ctx) {
    auto& [first, second] = ctx.lr_schedulers();
    first.step();
    if (first.moves() == 2) second.step();
    rates.push_back(first.optimizer().lr(0));
  }
  auto configure_optimizers() { return scheduled(scheduled(toy::Sgd{{p}}, half), Quarters{}); }
};

}  // namespace

TEST_CASE("several schedules in a fit: each is due by itself, and the rate is what all of them make of it") {
  Three model;
  TrainerOptions const four{.max_epochs = 4, .num_sanity_val_steps = 0};
  toy::train<Three>(four, Automatic{}).fit(model, toy::batches(2), toy::batches(1));
  // After steps 2, 4, 6 half; after epochs 2 and 4 a quarter; the second 3, after epoch 2, was no improvement.
  CHECK(model.rates == std::vector<double>{1, 1, 0.5, 0.5, 0.03125, 0.03125, 0.015625, 0.015625});
  MovesThem itself;
  toy::train<MovesThem>(four, Automatic{}).fit(itself, toy::batches(2), toy::batches(1));
  CHECK(itself.rates == model.rates);
  CHECK(itself.asked == std::vector<std::string>{"step", "plateau", "step", "epoch", "plateau", "step", "plateau",
                                                 "step", "epoch", "plateau"});
}

TEST_CASE("several schedules under manual optimization are moved by hand, one beside the other") {
  ByHand model;
  make_trainer<ByHand>(TrainerOptions{.max_epochs = 1, .limit_val_batches = 0}, toy::Device{}, Float32{}, Manual{})
      .fit(model, toy::batches(3), NoValidation{});
  CHECK(model.rates == std::vector<double>{0.5, 0.0625, 0.03125});
}

TEST_CASE("several schedules: what one that sets rates did outlasts the others' moves, also where a factor is 0") {
  Held run(scheduled(scheduled(scheduled(Groups{}, LinearWarmup{2}), plateau()), Sets{0.125}));
  auto& warmup = run.at<0>();
  CHECK(run.rates() == std::vector<double>{0, 0});
  run.at<2>().step();  // sets 0.125, of a rate that the warmup holds at 0
  run.at<1>().step(1);
  run.at<1>().step(1);
  CHECK(run.rates() == std::vector<double>{0, 0});
  warmup.step();
  CHECK(run.rates() == std::vector<double>{0.03125, 0.03125});  // set to 0.125, halved once, and half of the warmup
  run.at<1>().step(1);
  CHECK(run.rates() == std::vector<double>{0.015625, 0.015625});
  warmup.step();
  CHECK(run.rates() == std::vector<double>{0.03125, 0.03125});
  run.at<2>().step();
  warmup.step();
  CHECK(run.rates() == std::vector<double>{0.125, 0.125});
  // A search sets other initial rates: all schedules go on from these.
  CHECK(warmup.initial(0) == 1);
  warmup.begin_from(std::vector{2.0, 0.5});
  CHECK(warmup.initial(0) == 2);
  CHECK(run.rates() == std::vector<double>{2, 0.5});
  run.at<1>().step(1);
  CHECK(run.rates() == std::vector<double>{1, 0.25});
}

TEST_CASE("several schedules with a momentum: it is that of the one that has moved it last") {
  schedule::Cyclic const slow{.peak = 2, .step_size_up = 4}, fast{.peak = 3, .step_size_up = 2};
  Held run(scheduled(scheduled(Groups{}, slow), fast));
  CHECK(run.momenta() == std::vector<double>(2, *fast.momentum(0)));
  run.at<1>().step();
  run.at<0>().step();
  CHECK(run.momenta() == std::vector<double>(2, *slow.momentum(1)));
  CHECK(run.rates() == std::vector<double>{slow(1) * fast(1), 0.25 * (slow(1) * fast(1))});
}

TEST_CASE("several schedules in a file: from each moment, the same rates, bit for bit; each under a name of its own") {
  auto const make = [] { return Held(scheduled(scheduled(scheduled(Groups{}, LinearWarmup{5}), plateau()), half)); };
  auto const move = [](auto& run, int at) {
    run.template at<0>().step();
    if (at % 2 == 1) run.template at<1>().step(1);
    if (at % 3 == 2) run.template at<2>().step();
  };
  for (int cut = 0; cut != 9; ++cut) {
    CAPTURE(cut);
    auto run = make();
    for (int at = 0; at != cut; ++at) move(run, at);
    auto again = make();
    load_state_text(again, state_text(run));
    CHECK(state_text(again) == state_text(run));
    for (int at = cut; at != 9; ++at) {
      move(run, at);
      move(again, at);
      CHECK(again.rates() == run.rates());
    }
    CHECK(state_text(again) == state_text(run));
  }
  auto run = make();
  CHECK(run.key(0) == "0");
  CHECK(run.key(1) == "0 #2");
  CHECK(run.key(2) == "0 #3");
  using Two = loop::OptimizerSet<toy::Backend, OptimizerList<toy::Sgd, decltype(scheduled(toy::Sgd{}, half))>>;
  CHECK(Two::key(1) == "1");
  // A file from elsewhere, whose lists do not belong together, is refused and not read past their ends.
  auto text = state_text(run);
  auto const base = text.find("\"base\":[");
  REQUIRE(base != text.npos);
  auto const numbers = base + 8;
  text.erase(numbers, text.find(',', numbers) + 1 - numbers);
  CHECK(toy::refusal([&] { load_state_text(run, text); }) == "fulgurite.schedule.base");
}

TEST_CASE("several schedules: rules look at all of them, and the description names all") {
  using List = OptimizerList<decltype(std::declval<Three&>().configure_optimizers())>;
  static_assert(judge::all_scheduled_well<List> && judge::all_follow_declared<Three::Metrics, List>);
  static_assert(judge::any_configured<List> && judge::all_schedules_remember<List>);
  static_assert(std::is_same_v<judge::OptimizerOf<std::tuple_element_t<0, decltype(List::all)>>::type, toy::Sgd>);
  // The first of two is wrong, the second is not.
  auto const first_is = []<class Schedule>(Schedule schedule) {
    return OptimizerList{std::tuple(scheduled(scheduled(toy::Sgd{}, schedule), half))};
  };
  using Elsewhere = decltype(first_is(ReduceOnPlateau{undeclared}));
  static_assert(!judge::all_follow_declared<Three::Metrics, Elsewhere>);
  static_assert(!judge::all_scheduled_well<decltype(first_is(1.0))>);
  static_assert(!judge::all_have_momentum<toy::Backend, decltype(first_is(schedule::Cyclic{.peak = 2}))>);
  static_assert(judge::any_follows_text<decltype(first_is(ReduceOnPlateau{"val/loss"}))>);
  auto const counts = [n = 0L](long) mutable { return static_cast<double>(++n); };
  static_assert(!judge::all_schedules_remember<decltype(first_is(counts))>);
  static_assert(judge::any_sets_rates_unsaid<decltype(first_is(Unsaid{}))>);

  constexpr auto text = description<Trainer<Three, toy::Device, Float32, Automatic>>;
  INFO(text);
  CHECK(std::string(text).find("Sgd with ") != std::string::npos);
  CHECK(std::string(text).find(" and Quarters and ReduceOnPlateau\n") != std::string::npos);
}
