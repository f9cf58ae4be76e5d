// Windows that are not what K says: changed in between, of unsized loaders, ended early by a stop or by skip_epoch (D1,
// D2).
#include <catch2/catch_test_macros.hpp>

#include "models.hpp"

using namespace fulgurite;
using toy::Influence;
using toy::Places;
using toy::Positions;

namespace {

/// Skips the rest of the epoch at one batch.
struct SkipAt {
  using Stateless = ByChoice;
  long batch;
  int ended = 0, epochs_ended = 0;
  Flow on_train_batch_start(auto& ctx) { return ctx.batch_idx() == batch ? Flow::skip_epoch : Flow::proceed; }
  void on_train_batch_end() { ++ended; }
  void on_train_epoch_end() { ++epochs_ended; }
};

struct Repeats : toy::P {
  toy::Repeating configure_optimizers() {
    toy::Repeating optimizer;
    optimizer.params = {p};
    return optimizer;
  }
};

template <class M, class... Cs>
M slopes(Automatic how, int n, Cs... callbacks) {
  M model;
  toy::train<M>({.max_epochs = 1}, how, std::move(callbacks)...).fit(model, toy::Unsized(n));
  return model;
}

}  // namespace

TEST_CASE("ctx.accumulate at epoch starts: C6 with D1's last windows (n10: K 1, 2, 2, 4)") {
  toy::P model;
  auto schedule = Influence{[](std::string_view where, auto& ctx) {
    if constexpr (requires { ctx.accumulate(1); })
      if (where == "on_train_epoch_start" && (ctx.current_epoch() == 1 || ctx.current_epoch() == 3))
        ctx.accumulate(ctx.current_epoch() + 1);
  }};
  auto trainer = toy::train<toy::P>({.max_epochs = 4}, Automatic{}, Positions{}, schedule);
  trainer.fit(model, toy::batches(10));
  Places expected;
  for (long b = 0; b != 10; ++b) expected.emplace_back(0, b);
  for (int e : {1, 2})
    for (long b : {1, 3, 5, 7, 9}) expected.emplace_back(e, b);
  for (long b : {3, 7, 9}) expected.emplace_back(3, b);
  CHECK(trainer.callback<Positions>().steps == expected);
  CHECK(trainer.progress().global_step == 23);
  CHECK(model.p.value() == 23.0);
}

TEST_CASE("ctx.accumulate inside a window changes the next one: the gradients at hand keep their divisor") {
  toy::Slope model;
  auto shrink = Influence{[](std::string_view where, auto& ctx) {
    if constexpr (requires { ctx.accumulate(1); })
      if (where == "on_train_batch_end" && ctx.batch_idx() == 1) ctx.accumulate(1);
  }};
  toy::train<toy::Slope>({.max_epochs = 1}, Automatic{.accumulate_grad_batches = 4}, shrink)
      .fit(model, toy::batches(6));
  CHECK(model.stepped == std::vector<double>{2.5, 5.0, 6.0});
}

TEST_CASE("ctx.accumulate(0), and any window of several batches with a repeating optimizer (D6), are Errors") {
  auto ask = [](int k) {
    return Influence{[k](std::string_view where, auto& ctx) {
      if constexpr (requires { ctx.accumulate(1); })
        if (where == "on_train_epoch_start") ctx.accumulate(k);
    }};
  };
  toy::P model;
  CHECK(toy::refusal([&] { toy::train<toy::P>({.max_epochs = 1}, Automatic{}, ask(0)).fit(model, toy::batches(2)); }) ==
        "fulgurite.options.accumulate");
  Repeats repeats;
  CHECK(toy::refusal([&] {
          toy::train<Repeats>({.max_epochs = 1}, Automatic{}, ask(2)).fit(repeats, toy::batches(2));
        }) == "fulgurite.optimizer.closure_accumulates");
  CHECK(toy::refusal([&] {
          toy::train<Repeats>({.max_epochs = 1}, Automatic{.accumulate_grad_batches = 2}).fit(repeats, toy::batches(2));
        }) == "fulgurite.optimizer.closure_accumulates");
}

TEST_CASE("unsized loaders: the last window is known only at its end and is rescaled to its mean (D1)") {
  CHECK(slopes<toy::Slope>(Automatic{.accumulate_grad_batches = 2}, 5).stepped == std::vector<double>{1.5, 3.5, 5.0});
  CHECK(slopes<toy::Slope>(Automatic{.accumulate_grad_batches = 4}, 2).stepped == std::vector<double>{1.5});
  // Rescaling comes before clipping: 5 is limited to 4, not 2.5 left alone and doubled.
  toy::Slope const clipped = slopes<toy::Slope>(Automatic{.accumulate_grad_batches = 2, .clip = ClipValue{4.0}}, 5);
  CHECK(clipped.p.value() == -(1.5 + 3.5 + 4.0));
}

TEST_CASE("a stop asked for by validation inside a window: the window is stepped afterwards, nothing is lost (D2)") {
  toy::Validated model;
  auto stop = Influence{[](std::string_view where, auto& ctx) {
    if (where == "on_validation_end") ctx.request_stop();
  }};
  auto trainer = toy::train<toy::Validated>({.max_epochs = 5, .val_check_interval = 2, .num_sanity_val_steps = 0},
                                            Automatic{.accumulate_grad_batches = 4}, Positions{}, stop);
  trainer.fit(model, toy::batches(8), toy::batches(1));
  CHECK(trainer.callback<Positions>().validations == Places{{0, 1}});
  CHECK(trainer.progress().global_step == 1);
  CHECK(trainer.progress().logged_steps == 1);
  CHECK(model.p.value() == 1.0);
}

TEST_CASE("skip_epoch in the first batch: no step at all, the epoch still counts") {
  toy::P model;
  auto trainer = toy::train<toy::P>({.max_epochs = 2}, Automatic{.accumulate_grad_batches = 2}, SkipAt{0});
  trainer.fit(model, toy::batches(5));
  CHECK(trainer.progress().global_step == 0);
  CHECK(trainer.progress().epoch == 2);
}

TEST_CASE("K = 1: one step and one clearing for each batch") {
  toy::P model;
  auto trainer = toy::train<toy::P>({.max_epochs = 1}, Automatic{}, Positions{});
  trainer.fit(model, toy::batches(3));
  CHECK(trainer.callback<Positions>().steps == Places{{0, 0}, {0, 1}, {0, 2}});
  CHECK(trainer.callback<Positions>().clears == Places{{0, 0}, {0, 1}, {0, 2}});
}
