// LibTorch's own schedulers, driven by ours: the same rates as by hand, at every move, also after a resume.
#include "fixtures.hpp"

#include <torch/optim/schedulers/reduce_on_plateau_scheduler.h>
#include <torch/optim/schedulers/step_lr.h>

#include <fulgurite/checkpoint/archive.hpp>
#include <fulgurite/loop/optimizers.hpp>
#include <fulgurite/schedule/decay.hpp>
#include <fulgurite/schedule/plateau.hpp>
#include <fulgurite/torch/backend.hpp>
#include <fulgurite/torch/scheduler.hpp>

namespace {
using namespace fulgurite;
namespace optim = torch::optim;

constexpr Metric<"val/loss"> val_loss{};
std::vector<double> const losses{5, 4, 4, 4, 4, 3, 3, 3, 3, 3, 3, 3, 2.999, 3, 3};

/// Two groups with rates of their own.
optim::SGD two_groups() {
  auto const parameter = [] { return std::vector{torch::ones({2}).requires_grad_()}; };
  optim::SGD sgd({optim::OptimizerParamGroup(parameter()), optim::OptimizerParamGroup(parameter())}, optim::SGDOptions(0.1));
  sgd.param_groups()[1].options().set_lr(0.02);
  return sgd;
}
std::vector<double> rates(optim::Optimizer& optimizer) {
  std::vector<double> all;
  for (auto const& group : optimizer.param_groups()) all.push_back(group.options().get_lr());
  return all;
}

/// What a run holds of `scheduled(optimizer, schedule)`.
template <class S>
struct Held : loop::OptimizerSet<LibTorch, OptimizerList<Scheduled<optim::SGD, S, true>>> {
  using Base = loop::OptimizerSet<LibTorch, OptimizerList<Scheduled<optim::SGD, S, true>>>;
  explicit Held(S schedule, ScheduleOptions options = {})
      : Base(optimizers_of(fulgurite::scheduled(two_groups(), std::move(schedule), std::move(options)))) {}
  static auto optimizers_of(Scheduled<optim::SGD, S, true> one) { return fulgurite::optimizers(std::move(one)); }
  auto& scheduler() { return std::get<0>(this->schedulers); }
  std::vector<double> rates() { return ::rates(std::get<0>(this->optimizers).raw()); }
};

auto every_second() {
  return torch_schedule([](auto& optimizer) { return optim::StepLR(optimizer, 2, 0.5); });
}
auto impatient() {
  return torch_plateau(val_loss, [](auto& optimizer) {
    return optim::ReduceLROnPlateauScheduler(optimizer, optim::ReduceLROnPlateauScheduler::min, 0.5F, 1, 1e-4,
                                             optim::ReduceLROnPlateauScheduler::rel, 1);
  });
}
}  // namespace

TEST_CASE("StepLR through torch_schedule: the rates of the same StepLR by hand, group by group", "[schedulers]") {
  auto sgd = two_groups();
  optim::StepLR by_hand(sgd, 2, 0.5);
  Held run(every_second());
  CHECK(run.scheduler().interval() == Interval::epoch);
  CHECK(run.rates() == std::vector{0.1, 0.02});
  for (int move = 0; move != 7; ++move) {
    by_hand.step();
    run.scheduler().step();
    CHECK(run.rates() == rates(sgd));
  }
  CHECK(run.rates()[0] == 0.1 / 8);
  Held ours(schedule::Step{2, 0.5});
  Held late(every_second());
  for (int move = 0; move != 2; ++move) {
    ours.scheduler().step();
    late.scheduler().step();
  }
  CHECK(ours.rates()[0] == 0.05);
  CHECK(late.rates()[0] == 0.1);  // LibTorch's is one move behind Python's
  CHECK(run.scheduler().moves() == 7);
  CHECK(Held(every_second(), {.interval = Interval::step}).scheduler().interval() == Interval::step);
}

TEST_CASE("ReduceLROnPlateauScheduler through torch_plateau watches a metric, and lowers the rates as by hand and as ours", "[schedulers]") {
  auto sgd = two_groups();
  optim::ReduceLROnPlateauScheduler by_hand(sgd, optim::ReduceLROnPlateauScheduler::min, 0.5F, 1, 1e-4,
                                            optim::ReduceLROnPlateauScheduler::rel, 1);
  Held run(impatient());
  Held ours(schedule::ReduceOnPlateau{val_loss, {.factor = 0.5, .patience = 1, .cooldown = 1}});
  static_assert(std::remove_cvref_t<decltype(run.scheduler())>::observes);
  CHECK(run.scheduler().metric().name() == "val/loss");
  CHECK(run.scheduler().strict());
  for (double const loss : losses) {
    by_hand.step(static_cast<float>(loss));
    run.scheduler().step(loss);
    ours.scheduler().step(loss);
    CHECK(run.rates() == rates(sgd));
    CHECK(run.rates() == ours.rates());  // a factor that float and double hold alike
  }
  CHECK(run.rates()[0] < 0.1 / 4);
}

TEST_CASE("LibTorch's schedulers resume: moved again as often, on the saved initial rates, and the rates are exact", "[schedulers]") {
  for (std::size_t cut = 0; cut != losses.size(); ++cut) {
    CAPTURE(cut);
    Held steps(every_second()), resumed_steps(every_second());
    Held plateau(impatient()), resumed_plateau(impatient());
    for (std::size_t k = 0; k != cut; ++k) {
      steps.scheduler().step();
      plateau.scheduler().step(losses[k]);
    }
    std::get<0>(steps.optimizers).set_lr(1, 0.123);  // what somebody changed by hand is not lost
    resumed_steps.scheduler().step();                // what came before loading does not count
    load_state_text(resumed_steps.scheduler(), state_text(steps.scheduler()));
    load_state_text(resumed_plateau.scheduler(), state_text(plateau.scheduler()));
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
