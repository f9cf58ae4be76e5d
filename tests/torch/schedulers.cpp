// LibTorch's own schedulers, driven by ours: the same rates as by hand, at every move, also after a resume.
#include "fixtures.hpp"

#include <torch/optim/schedulers/reduce_on_plateau_scheduler.h>
#include <torch/optim/schedulers/step_lr.h>

#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fulgurite/core/archive.hpp>
#include <fulgurite/loop/parts.hpp>
#include <fulgurite/schedule/schedule.hpp>
#include <fulgurite/torch/device/backend.hpp>
#include <fulgurite/torch/optim/first_order.hpp>
#include <fulgurite/torch/optim/optimizer.hpp>

namespace {
using namespace fulgurite;
namespace lib = torch::optim;

constexpr Metric<"val/loss"> val_loss{};
std::vector<double> const losses{5, 4, 4, 4, 4, 3, 3, 3, 3, 3, 3, 3, 2.999, 3, 3};

/// Two groups with rates of their own.
lib::SGD two_groups() {
  auto const parameter = [] { return std::vector{torch::ones({2}).requires_grad_()}; };
  lib::SGD sgd({lib::OptimizerParamGroup(parameter()), lib::OptimizerParamGroup(parameter())}, lib::SGDOptions(0.1));
  sgd.param_groups()[1].options().set_lr(0.02);
  return sgd;
}
std::vector<double> rates_of(lib::Optimizer& optimizer) {
  std::vector<double> all;
  for (auto const& group : optimizer.param_groups()) all.push_back(group.options().get_lr());
  return all;
}

/// What a run holds of `scheduled(optimizer, schedule)`.
template <class S>
struct Held : loop::OptimizerSet<LibTorch, OptimizerList<Scheduled<lib::SGD, S, true>>> {
  using Base = loop::OptimizerSet<LibTorch, OptimizerList<Scheduled<lib::SGD, S, true>>>;
  explicit Held(S schedule, ScheduleOptions options = {})
      : Base(optimizers_of(fulgurite::scheduled(two_groups(), std::move(schedule), std::move(options)))) {}
  static auto optimizers_of(Scheduled<lib::SGD, S, true> one) { return fulgurite::optimizers(std::move(one)); }
  auto& scheduler() { return std::get<0>(this->schedulers); }
  std::vector<double> rates() { return rates_of(std::get<0>(this->optimizers).raw()); }
};

auto step_lr(unsigned size = 2) {
  return torch_schedule([size](auto& optimizer) { return lib::StepLR(optimizer, size, 0.5); });
}
auto impatient(float factor = 0.5F) {
  return torch_plateau(val_loss, [factor](auto& optimizer) {
    return lib::ReduceLROnPlateauScheduler(optimizer, lib::ReduceLROnPlateauScheduler::min, factor, 1, 1e-4,
                                           lib::ReduceLROnPlateauScheduler::rel, 1);
  });
}
/// What a file has of a torch_schedule.
struct SavedMoves {
  long moves;
  void state(auto& archive) { archive("moves", moves); }
};
}  // namespace

TEST_CASE("StepLR through torch_schedule: the rates of the same StepLR by hand, group by group", "[schedulers]") {
  auto sgd = two_groups();
  lib::StepLR by_hand(sgd, 2, 0.5);
  Held run(step_lr());
  CHECK(run.scheduler().interval() == Interval::epoch);
  CHECK(run.rates() == std::vector{0.1, 0.02});
  for (int move = 0; move != 7; ++move) {
    by_hand.step();
    run.scheduler().step();
    CHECK(run.rates() == rates_of(sgd));
  }
  CHECK(run.rates()[0] == 0.1 / 8);
  Held ours(schedule::Step{2, 0.5});
  Held late(step_lr());
  for (int move = 0; move != 2; ++move) {
    ours.scheduler().step();
    late.scheduler().step();
  }
  CHECK(ours.rates()[0] == 0.05);
  CHECK(late.rates()[0] == 0.1);  // LibTorch's is one move behind Python's
  CHECK(run.scheduler().moves() == 7);
  CHECK(Held(step_lr(), {.interval = Interval::step}).scheduler().interval() == Interval::step);
}

TEST_CASE(
    "ReduceLROnPlateauScheduler through torch_plateau watches a metric, and lowers the rates as by hand and as ours",
    "[schedulers]") {
  auto sgd = two_groups();
  lib::ReduceLROnPlateauScheduler by_hand(sgd, lib::ReduceLROnPlateauScheduler::min, 0.5F, 1, 1e-4,
                                          lib::ReduceLROnPlateauScheduler::rel, 1);
  Held run(impatient());
  Held ours(schedule::ReduceOnPlateau{val_loss, {.factor = 0.5, .patience = 1, .cooldown = 1}});
  static_assert(std::remove_cvref_t<decltype(run.scheduler())>::observes);
  CHECK(run.scheduler().metric().name() == "val/loss");
  CHECK(run.scheduler().strict());
  for (double const loss : losses) {
    by_hand.step(static_cast<float>(loss));
    run.scheduler().step(loss);
    ours.scheduler().step(loss);
    CHECK(run.rates() == rates_of(sgd));
    CHECK(run.rates() == ours.rates());  // a factor that float and double hold alike
  }
  CHECK(run.rates()[0] < 0.1 / 4);
}

TEST_CASE("StepLR through torch_schedule beside a cosine of ours: what it did outlasts the cosine's moves, also in a "
          "file",
          "[schedulers]") {
  schedule::Cosine const cosine{.total = 9};
  auto const make = [&] { return scheduled(scheduled(two_groups(), cosine), step_lr()); };
  using Both = loop::OptimizerSet<LibTorch, OptimizerList<decltype(make())>>;
  Both run(optimizers(make()));
  auto const move = [](Both& all) {
    std::get<0>(all.schedulers).step();
    std::get<1>(all.schedulers).step();
  };
  auto const rates = [](Both& all) { return rates_of(std::get<0>(all.optimizers).raw()); };
  for (int at = 0; at != 5; ++at) move(run);  // LibTorch's has halved twice: at its moves 3 and 5
  CHECK(rates(run)[0] / (0.1 * cosine(5) / 4) - 1 < 1e-14);
  CHECK(1 - rates(run)[1] / (0.02 * cosine(5) / 4) < 1e-14);
  Both again(optimizers(make()));
  load_state_text(again, state_text(run));
  for (int at = 0; at != 3; ++at) {
    CHECK(rates(again) == rates(run));
    move(run);
    move(again);
  }
  CHECK(rates(again) == rates(run));
}

TEST_CASE("LibTorch's schedulers resume: moved again as often, on the saved initial rates, and the rates are exact",
          "[schedulers]") {
  for (std::size_t cut = 0; cut != losses.size(); ++cut) {
    CAPTURE(cut);
    Held steps(step_lr()), resumed_steps(step_lr());
    Held plateau(impatient()), resumed_plateau(impatient());
    for (std::size_t k = 0; k != cut; ++k) {
      steps.scheduler().step();
      plateau.scheduler().step(losses[k]);
    }
    std::get<0>(steps.optimizers).set_lr(1, 0.123);  // what somebody changed by hand is not lost
    resumed_steps.scheduler().step();                // what came before loading does not count
    load_state_text(resumed_steps, state_text(steps));
    load_state_text(resumed_plateau, state_text(plateau));
    CHECK(resumed_steps.rates() == steps.rates());
    CHECK(resumed_plateau.rates() == plateau.rates());
    for (std::size_t k = cut; k != losses.size(); ++k) {
      steps.scheduler().step();
      resumed_steps.scheduler().step();
      plateau.scheduler().step(losses[k]);
      resumed_plateau.scheduler().step(losses[k]);
      CHECK(resumed_steps.rates() == steps.rates());
      CHECK(resumed_plateau.rates() == plateau.rates());
    }
  }
}

TEST_CASE("a number of moves that no scheduler can have made is refused, instead of moving for ever", "[schedulers]") {
  auto schedule = step_lr();
  for (long const moves : {-1L, -(1L << 62), 1L << 32, 1L << 62}) {
    SavedMoves saved{moves};
    CHECK_THROWS_WITH(load_state_text(schedule, state_text(saved)),
                      Catch::Matchers::StartsWith("[fulgurite.checkpoint.state_entry]") &&
                          Catch::Matchers::ContainsSubstring(std::to_string(moves) + " moves"));
  }
}

TEST_CASE("LibTorch's schedulers resume with the program's constants: the rates of these after the file's moves",
          "[schedulers]") {
  for (std::size_t cut = 0; cut != losses.size(); ++cut) {
    CAPTURE(cut);
    Held steps(step_lr()), resumed_steps(step_lr(3)), own_steps(step_lr(3));
    Held plateau(impatient()), resumed_plateau(impatient(0.25F)), own_plateau(impatient(0.25F));
    auto const move = [&](std::size_t k, auto& by_steps, auto& by_losses) {
      by_steps.scheduler().step();
      by_losses.scheduler().step(losses[k]);
    };
    for (std::size_t k = 0; k != cut; ++k) move(k, steps, plateau), move(k, own_steps, own_plateau);
    load_state_text(resumed_steps, state_text(steps));
    load_state_text(resumed_plateau, state_text(plateau));
    for (std::size_t k = cut;; ++k) {
      CHECK(resumed_steps.rates() == own_steps.rates());
      CHECK(resumed_plateau.rates() == own_plateau.rates());
      if (k == losses.size()) break;
      move(k, resumed_steps, resumed_plateau);
      move(k, own_steps, own_plateau);
    }
  }
}

namespace {
schedule::OneCycle const cycle{.total = 8};

/// Twelve numbers after eight steps of an optimizer that `make` makes of them; `before(optimizer, step)` comes first.
template <class Make, class Before>
torch::Tensor stepped(Make make, Before before) {
  torch::Tensor weight = torch::linspace(-1, 1, 12, torch::kDouble).requires_grad_();
  auto optimizer = make(weight);
  for (long t = 0; t != 8; ++t) {
    before(optimizer, t);
    optimizer.zero_grad();
    (weight * weight * (weight + 1)).sum().backward();
    optimizer.step();
  }
  return weight.detach();
}
/// The same, moved by a schedule on the optimizer as it is and on ours, against momenta that are set by hand.
template <class Torch, class Ours, class SetBoth>
void cycles_as_by_hand(Torch make_torch, Ours make_ours, SetBoth set_both) {
  auto const by_hand = stepped(make_torch, set_both);
  auto const scheduled_by = [&](auto make) {
    using O = std::remove_cvref_t<decltype(LibTorch::adopt(make(torch::zeros(1))))>;
    struct Run {
      O optimizer;
      Scheduler<O, schedule::OneCycle> scheduler{cycle, {}};
      long moves = 0;
      void zero_grad() { optimizer.zero_grad(); }
      void step() { optimizer.step(); }
    };
    return stepped([&](torch::Tensor const& weight) { return Run{LibTorch::adopt(make(weight))}; },
                   [](Run& run, long t) {
                     if (t == 0) run.scheduler.attach(run.optimizer);
                     else run.scheduler.step();
                     for (std::size_t g = 0; g != run.optimizer.groups(); ++g)
                       CHECK(run.optimizer.momentum(g) == cycle.momentum(t));
                   });
  };
  CHECK(torch::equal(scheduled_by(make_torch), by_hand));
  CHECK(torch::equal(scheduled_by(make_ours), by_hand));
}
}  // namespace

TEST_CASE("OneCycle moves Adam's first beta and SGD's momentum, of LibTorch's and ours, as by hand bit for bit",
          "[schedulers]") {
  auto const halves = [](torch::Tensor const& w) { return std::vector{w}; };
  cycles_as_by_hand([&](torch::Tensor const& w) { return lib::Adam(halves(w), lib::AdamOptions(0.1)); },
                    [&](torch::Tensor const& w) { return fulgurite::optim::Adam(halves(w), {.lr = 0.1}); },
                    [](lib::Adam& adam, long t) {
                      auto& options = static_cast<lib::AdamOptions&>(adam.param_groups()[0].options());
                      options.lr(0.1 * cycle(t)).betas({*cycle.momentum(t), 0.999});
                    });
  cycles_as_by_hand(
      [&](torch::Tensor const& w) { return lib::SGD(halves(w), lib::SGDOptions(0.01).momentum(0.9)); },
      [&](torch::Tensor const& w) { return fulgurite::optim::SGD(halves(w), {.lr = 0.01, .momentum = 0.9}); },
      [](lib::SGD& sgd, long t) {
        static_cast<lib::SGDOptions&>(sgd.param_groups()[0].options()).lr(0.01 * cycle(t)).momentum(*cycle.momentum(t));
      });
}

TEST_CASE("every parameter group has the cycle's momentum; one made without is refused", "[schedulers]") {
  STATIC_REQUIRE(HasMomentum<TorchOptimizer<lib::RMSprop>>);
  STATIC_REQUIRE(!HasMomentum<TorchOptimizer<lib::Adagrad>>);
  STATIC_REQUIRE(!HasMomentum<TorchOptimizer<lib::LBFGS>>);
  TorchOptimizer<lib::SGD> plain(two_groups());
  Scheduler<TorchOptimizer<lib::SGD>, schedule::OneCycle> scheduler(cycle, {});
  CHECK_THROWS_WITH(scheduler.attach(plain), Catch::Matchers::StartsWith("[fulgurite.schedule.zero_momentum]"));
  for (std::size_t const g : {0U, 1U}) plain.set_momentum(g, 0.5);
  scheduler.attach(plain);
  scheduler.step();
  for (std::size_t const g : {0U, 1U}) CHECK(plain.momentum(g) == cycle.momentum(1));
  fulgurite::optim::SGD ours(std::vector{torch::ones({2}).requires_grad_()}, {.lr = 0.1});
  CHECK_THROWS_WITH(ours.set_momentum(0, 0.9), Catch::Matchers::StartsWith("[fulgurite.optim.option]"));
  ours.set_momentum(0, 0);
}
