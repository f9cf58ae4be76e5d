// Section 11.4: how training ends: stops and their minima, limits, time, a batch's start that ends the epoch.
#include "observed.hpp"

using namespace fulgurite;
using toy::Influence;

namespace {

struct Scheduling : toy::Validated {
  Counts moves = {};
  auto configure_optimizers() {
    return scheduled(toy::Sgd{{p}}, [](long) { return 1.0; });
  }
  void on_train_end(auto& ctx) {
    ctx.each_scheduler([&](auto& s) { moves.push_back(s.moves()); });
  }
};

/// Which of the frames' hooks ran.
struct Frames {
  using Stateless = ByChoice;
  Words seen = {};
  void on_sanity_check_start() { seen.push_back("sanity"); }
  void on_train_start() { seen.push_back("train_start"); }
  void on_train_batch_start() { seen.push_back("batch"); }
  void on_train_end() { seen.push_back("train_end"); }
  void on_fit_end() { seen.push_back("fit_end"); }
};

struct Ended {
  long steps;
  int epochs;
  Words seen;
};
template <class... Cs>
Ended ended(TrainerOptions options, int n, Cs... callbacks) {
  toy::Validated model;
  auto trainer = toy::train<toy::Validated>(options, Automatic{}, Frames{}, std::move(callbacks)...);
  trainer.fit(model, toy::batches(n), toy::batches(1));
  return {trainer.progress().global_step, trainer.progress().epoch, trainer.template callback<Frames>().seen};
}

/// Ends each epoch at the start of this batch.
struct SkipAt {
  using Stateless = ByChoice;
  long batch;
  Places ended = {};
  std::vector<int> epochs_ended = {};
  Flow on_train_batch_start(auto& ctx) { return ctx.batch_idx() == batch ? Flow::skip_epoch : Flow::proceed; }
  void on_train_batch_end(auto& ctx) { ended.push_back(Positions::here(ctx)); }
  void on_train_epoch_end(auto& ctx) { epochs_ended.push_back(ctx.current_epoch()); }
};

}  // namespace

TEST_CASE("C45 stop in (1,1) of n4: gs 6, two epochs, an extra validation there, the epoch schedule moved once") {
  Scheduling model;
  auto trainer = toy::train<Scheduling>({.max_epochs = 5, .num_sanity_val_steps = 0}, Automatic{}, Positions{},
                                        toy::stop_at(1, 1));
  trainer.fit(model, toy::batches(4), toy::batches(1));
  CHECK(observed("C45", "gs", trainer.progress().global_step) == 6);
  CHECK(observed("C45", "epoch", trainer.progress().epoch) == 2);
  CHECK(observed("C45", "validations", trainer.callback<Positions>().validations) == Places{{0, 3}, {1, 1}});
  CHECK(observed("C45", "moves", model.moves) == Counts{1});
}

// Lightning: gs 2, the window is dropped.
TEST_CASE("C47 K4 n8, stop in (1,1): with D2 the window of two is stepped as their mean before validation, then "
          "training ends") {
  toy::Slope model;
  auto trainer = toy::train<toy::Slope>({.max_epochs = 5}, Automatic{.accumulate_grad_batches = 4}, Positions{},
                                        toy::stop_at(1, 1));
  trainer.fit(model, toy::batches(8));
  CHECK(model.stepped == Numbers{2.5, 6.5, 1.5});
  CHECK(observed("C47", "gs", trainer.progress().global_step) == 3);
  CHECK(observed("C47", "epoch", trainer.progress().epoch) == 2);
  CHECK(trainer.callback<Positions>().steps.back() == toy::At{1, 1});

  toy::Validated validated;
  Counts steps_seen;
  auto stop = Influence{[&](std::string_view where, auto& ctx) {
    if (where == "on_train_batch_end" && ctx.batch_idx() == 1) ctx.request_stop();
    if (where == "on_validation_end") steps_seen.push_back(ctx.global_step());
  }};
  toy::train<toy::Validated>({.max_epochs = 5, .num_sanity_val_steps = 0}, Automatic{.accumulate_grad_batches = 4},
                             stop)
      .fit(validated, toy::batches(8), toy::batches(1));
  CHECK(steps_seen == Counts{1});
  CHECK(validated.p.value() == 1.0);
}

TEST_CASE("C48 stop in on_fit_start: no train hooks; with min_epochs 2 gs 4; with min_steps 3 gs 3 in epoch 2 (n2)") {
  auto const stop = Influence{[](std::string_view where, auto& ctx) {
    if (where == "on_fit_start") ctx.request_stop();
  }};
  auto const none = ended({.max_epochs = 5, .num_sanity_val_steps = 0}, 2, stop);
  CHECK(observed("C48", "gs", none.steps) == 0);
  CHECK(observed("C48", "hooks", none.seen) == Words{"fit_end"});
  CHECK(observed("C48", "min_epochs 2: gs", ended({.max_epochs = 5, .min_epochs = 2}, 2, stop).steps) == 4);
  auto const steps = ended({.max_epochs = 5, .min_steps = 3}, 2, stop);
  CHECK(observed("C48", "min_steps 3: gs", steps.steps) == 3);
  CHECK(observed("C48", "min_steps 3: epoch", steps.epochs) == 2);
}

// Lightning: accepted, 3 epochs run.
TEST_CASE("C49 min_epochs 5 above max_epochs 3 is refused with D7") {
  std::string which, said;
  CHECK(observed("C49", "min 5 max 3", outcome([] { ended({.max_epochs = 3, .min_epochs = 5}, 2); }, &which, &said)) ==
        "error");
  CHECK(which == "fulgurite.options.min_over_max");
  CHECK(said.find("min_epochs = 5") != std::string::npos);
  CHECK(said.find("max_epochs = 3") != std::string::npos);
  CHECK(outcome([] { ended({.max_steps = 3, .min_steps = 5}, 2); }, &which) == "error");
  CHECK(which == "fulgurite.options.min_over_max");
}

TEST_CASE("C50 max_epochs 0 or max_steps 0: the sanity check alone") {
  auto const epochs = ended({.max_epochs = 0}, 4), steps = ended({.max_steps = 0}, 4);
  CHECK(observed("C50", "E0: gs", epochs.steps) == 0);
  CHECK(observed("C50", "E0: hooks", epochs.seen) == Words{"sanity", "fit_end"});
  CHECK(observed("C50", "max_steps 0: gs", steps.steps) == 0);
  CHECK(observed("C50", "max_steps 0: hooks", steps.seen) == Words{"sanity", "fit_end"});
}

TEST_CASE("C52 no time at all: no batch; min_epochs 2: gs 8; min_steps 3: gs 4 in one epoch; both: gs 8 (n4)") {
  auto const none = ended({.max_time = Seconds(0), .num_sanity_val_steps = 0}, 4);
  CHECK(observed("C52", "gs", none.steps) == 0);
  CHECK(observed("C52", "hooks", none.seen) == Words{"fit_end"});
  CHECK(observed("C52", "min_epochs 2: gs", ended({.min_epochs = 2, .max_time = Seconds(0)}, 4).steps) == 8);
  auto const steps = ended({.min_steps = 3, .max_time = Seconds(0)}, 4);
  CHECK(observed("C52", "min_steps 3: gs", steps.steps) == 4);
  CHECK(observed("C52", "min_steps 3: epoch", steps.epochs) == 1);
  CHECK(observed("C52", "both: gs", ended({.min_epochs = 2, .min_steps = 3, .max_time = Seconds(0)}, 4).steps) == 8);
}

TEST_CASE("C53 skip_epoch at b2, n5 E2: two batches, epoch-end hooks, the schedule moves, no validation") {
  Scheduling model;
  auto trainer =
      toy::train<Scheduling>({.max_epochs = 2, .num_sanity_val_steps = 0}, Automatic{}, Positions{}, SkipAt{2});
  trainer.fit(model, toy::batches(5), toy::batches(1));
  auto const& skip = trainer.callback<SkipAt>();
  CHECK(observed("C53", "starts", trainer.callback<Positions>().batches) == each_epoch(2, {0, 1, 2}));
  CHECK(observed("C53", "ends", skip.ended) == each_epoch(2, {0, 1}));
  CHECK(observed("C53", "epoch ends", skip.epochs_ended) == std::vector<int>{0, 1});
  CHECK(observed("C53", "validations", trainer.callback<Positions>().validations).empty());
  CHECK(observed("C53", "gs", trainer.progress().global_step) == 4);
  CHECK(observed("C53", "moves", model.moves) == Counts{2});
}

// Lightning: gs 0, what was accumulated is dropped.
TEST_CASE("C54 the same with K4: with D2 what was accumulated is stepped, one step an epoch; the schedule moves") {
  Scheduling model;
  auto trainer = toy::train<Scheduling>({.max_epochs = 2, .num_sanity_val_steps = 0},
                                        Automatic{.accumulate_grad_batches = 4}, SkipAt{2});
  trainer.fit(model, toy::batches(5), toy::batches(1));
  CHECK(observed("C54", "gs", trainer.progress().global_step) == 2);
  CHECK(observed("C54", "p", model.p.value()) == 2.0);
  CHECK(observed("C54", "moves", model.moves) == Counts{2});
}
