// Loaders that leave out batches on one rank alone: windows stay those of all ranks, and by hand nobody waits.

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <models.hpp>
#include <ranks.hpp>
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>
#include <fulgurite/tuner/learning_rate_finder.hpp>

using namespace fulgurite;

namespace {

constexpr auto soon = std::chrono::milliseconds(1500);
constexpr std::nullopt_t none = std::nullopt;
using Given = std::vector<std::optional<double>>;

struct Gaps {
  [[maybe_unused]] static constexpr bool shards_itself = true;
  Given all;
  std::size_t size() const { return all.size(); }
  auto begin() { return all.begin(); }
  auto end() { return all.end(); }
};

/// The gradient is that of -x p.
struct Slope {
  toy::Tensor p = toy::Tensor::parameter(0.0);
  std::vector<double> weights = {};
  toy::Tensor training_step(double x) { return p * toy::Tensor(-x); }
  void validation_step(double) {}
  void on_train_batch_end(auto& ctx) {
    if (!ctx.accumulating()) weights.push_back(p.value());
  }
  toy::Sgd configure_optimizers() { return {.params = {p}, .rate = 1}; }
};

struct ByHand {
  toy::Tensor p = toy::Tensor::parameter(0.5), q = toy::Tensor::parameter(0.5);
  void training_step(double, auto& ctx) {
    auto& [first, second] = ctx.optimizers();
    static_cast<void>(second);
    ctx.minimize(first, -p);
  }
  std::vector<toy::Tensor> parameters() const { return {p, q}; }
  auto configure_optimizers() { return optimizers(toy::Sgd{.params = {p}}, toy::Sgd{.params = {q}}); }
};
struct SkipsAlone {
  using Stateless = ByChoice;
  Flow on_train_batch_start(auto& ctx) const {
    return ctx.rank() == 1 && ctx.batch_idx() == 2 ? Flow::skip_epoch : Flow::proceed;
  }
};

/// Rank 1 steps another optimizer than rank 0 in one batch.
struct StepsApart : ByHand {
  long in = 0;
  void training_step(double, auto& ctx) {
    auto& [first, second] = ctx.optimizers();
    first.zero_grad();
    second.zero_grad();
    ctx.backward(-p - q);
    if (ctx.rank() == 1 && ctx.batch_idx() == in) ctx.step(second);
    else ctx.step(first);
  }
};

/// Steps of `window` batches, a validation after each `every` of them, a file with the `at`-th validation.
template <class From>
auto fitted(Given const& zero, Given const& one, int window, int every, int at, From from) {
  toy::Meeting meeting(2, soon);
  return toy::on_ranks(meeting, [&](toy::Rank rank) {
    Slope model;
    auto asks = toy::Influence{[=, seen = 0](std::string_view where, auto& ctx) mutable {
      if (where == "on_validation_end" && ++seen == at) ctx.request_checkpoint("here");
    }};
    auto trainer = make_trainer<Slope>({.max_epochs = 1,
                                        .val_check_interval = Batches{every},
                                        .num_sanity_val_steps = 0,
                                        .silence = {"fulgurite.data.none"}},
                                       rank, Float32{}, Automatic{.accumulate_grad_batches = window}, asks);
    Gaps train{rank.rank() == 0 ? zero : one};
    toy::OwnPart<double> val{toy::batches(1)};
    if constexpr (std::is_same_v<From, loop::FromScratch>) trainer.fit(model, train, val);
    else trainer.fit(model, train, val, from);
    return model.weights;
  });
}

/// What each rank has thrown, by hand.
template <class... Cs>
std::vector<std::string> by_hand(Given const& zero, Given const& one, Cs... callbacks) {
  toy::Meeting meeting(2, soon);
  auto const all = toy::on_ranks(meeting, [&](toy::Rank rank) {
    ByHand model;
    auto trainer = make_trainer<ByHand>({.max_epochs = 2, .silence = {"fulgurite.data.none"}}, rank, Float32{},
                                        Manual{}, callbacks...);
    trainer.fit(model, Gaps{rank.rank() == 0 ? zero : one});
    return 0;
  });
  return {all[0].error, all[1].error};
}

}  // namespace

TEST_CASE("ranks: one whose loader left out a window's first batch validates and writes inside it, as the others") {
  auto const all = fitted({1, 2, none, 3}, {none, 4, none, 5}, 2, 1, 1, loop::FromScratch{});
  for (auto const& rank : all) CHECK(rank.error == "");
  // The first window has the mean of what some rank had, 1 / 2, and of 2 and 4, halved; the second that of 3 and 5.
  CHECK(all[0].result == std::vector<double>{2, 6});
  CHECK(all[1].result == all[0].result);
  auto const after = fitted({1, 2, none, 3}, {none, 4, none, 5}, 2, 1, 0, CkptPath{"here"});
  for (auto const& rank : after) CHECK(rank.error == "");
  CHECK(after[0].result == all[0].result);
  CHECK(after[1].result == all[0].result);
}

namespace {

struct Saves : Slope {
  std::function<void()> save = {};
  void on_train_batch_end(auto& ctx) {
    Slope::on_train_batch_end(ctx);
    if (ctx.batch_idx() == 0) save();
  }
};

}  // namespace

TEST_CASE("ranks: the same of a file that a hook writes inside the window") {
  toy::Meeting meeting(2, soon);
  auto const all = toy::on_ranks(meeting, [](toy::Rank rank) {
    Saves model;
    auto trainer = make_trainer<Saves>({.max_epochs = 1, .silence = {"fulgurite.data.none"}}, rank, Float32{},
                                       Automatic{.accumulate_grad_batches = 2});
    model.save = [&] { trainer.save_checkpoint("here"); };
    trainer.fit(model, Gaps{rank.rank() == 0 ? Given{1, 2} : Given{none, 4}}, NoValidation{});
    return model.weights;
  });
  for (auto const& rank : all) CHECK(rank.error == "");
  CHECK(all[0].result == std::vector<double>{2});
  CHECK(all[1].result == all[0].result);
}

TEST_CASE("ranks: how many batches of an open window a loader has left out is in the file for each of them") {
  auto const all = fitted({1, 2, 3}, {1, none, 6}, 3, 2, 1, loop::FromScratch{});
  for (auto const& rank : all) CHECK(rank.error == "");
  auto const after = fitted({1, 2, 3}, {1, none, 6}, 3, 2, 0, CkptPath{"here"});
  for (auto const& rank : after) CHECK(rank.error == "");
  CHECK(after[0].result == all[0].result);
  CHECK(after[1].result == all[1].result);
}

TEST_CASE("ranks: a stop inside a window whose first batch one loader left out is a step of all") {
  toy::Meeting meeting(2, soon);
  auto const all = toy::on_ranks(meeting, [&](toy::Rank rank) {
    Slope model;
    auto stops = toy::Influence{[](std::string_view where, auto& ctx) {
      if (where == "on_validation_end") ctx.request_stop();
    }};
    auto trainer = make_trainer<Slope>({.max_epochs = 1,
                                        .val_check_interval = Batches{1},
                                        .num_sanity_val_steps = 0,
                                        .silence = {"fulgurite.data.none"}},
                                       rank, Float32{}, Automatic{.accumulate_grad_batches = 2}, stops);
    trainer.fit(model, Gaps{rank.rank() == 0 ? Given{1, 2} : Given{none, 4}}, toy::OwnPart<double>{toy::batches(1)});
    return model.p.value();
  });
  for (auto const& rank : all) CHECK(rank.error == "");
  CHECK(all[0].result == 1.0);
  CHECK(all[1].result == 1.0);
}

namespace {

struct GpuRank : toy::Rank {
  static constexpr Known on_gpu = Known::yes;
  explicit GpuRank(toy::Rank rank) : Rank(rank) {}
  bool is_on_gpu() const { return true; }
};

}  // namespace

TEST_CASE("ranks: with a scaled loss, too, one that has no batch makes the update of the others") {
  toy::Meeting meeting(2, soon);
  auto const all = toy::on_ranks(meeting, [](toy::Rank rank) {
    Slope model;
    auto trainer = make_trainer<Slope>({.max_epochs = 1, .silence = {"fulgurite.data.none"}}, GpuRank(rank),
                                       Fp16Mixed{.init_scale = 4});
    trainer.fit(model, Gaps{rank.rank() == 0 ? Given{1, 2, 3} : Given{none, 4, none}}, NoValidation{});
    return model.weights;
  });
  for (auto const& rank : all) {
    CHECK(rank.error == "");
    CHECK(rank.result == std::vector<double>{1, 4, 7});
  }
}

TEST_CASE(
    "ranks: in a trial run a rank whose loader left out a batch takes part in its step: rate and loss are of all") {
  toy::Meeting meeting(2, soon);
  auto const all = toy::on_ranks(meeting, [&](toy::Rank rank) {
    Slope model;
    auto trainer = make_trainer<Slope>({.max_epochs = 1, .silence = {"fulgurite.data.none"}}, rank);
    std::vector<double> losses;
    Gaps train{rank.rank() == 0 ? Given{1, 2, 3, none} : Given{none, 4, none, 5}};
    tune::rehearse(trainer, model, train,
                   {.steps = 4,
                    .before_step = [](auto& step) { step.rates().set(std::vector{double(step.number() + 1)}); },
                    .after_step = [&](auto& step) { losses.push_back(step.has_loss() ? step.loss() : 99); }});
    return std::pair(model.weights, losses);
  });
  for (auto const& rank : all) {
    CHECK(rank.error == "");
    CHECK(rank.result->first == std::vector<double>{1, 7, 16, 36});
    CHECK(rank.result->second == std::vector<double>{0, -3, -21, -80});
  }
}

namespace {

struct SkipsOnOne : Slope {
  static constexpr Metric<"loss"> loss{.on_step = true, .sync_on_step = true};
  using Metrics = MetricList<loss>;
  toy::Tensor training_step(double x, auto& ctx) {
    ctx.log(loss, x);
    return Slope::training_step(x);
  }
  Flow on_train_batch_start(auto& ctx) const {
    return ctx.rank() == 1 && ctx.batch_idx() == 1 ? Flow::skip_epoch : Flow::proceed;
  }
};

}  // namespace

TEST_CASE("ranks: in a trial run an epoch that one of them skips ends for all of them") {
  toy::Meeting meeting(2, soon);
  auto const all = toy::on_ranks(meeting, [&](toy::Rank rank) {
    SkipsOnOne model;
    auto trainer = make_trainer<SkipsOnOne>({.max_epochs = 2, .log_every_n_steps = 1}, rank);
    std::vector<long> numbers;
    tune::rehearse(trainer, model, Gaps{Given{1, 2, 3}},
                   {.steps = 4, .after_step = [&](auto& step) { numbers.push_back(step.number()); }});
    return numbers;
  });
  for (auto const& rank : all) CHECK(rank.error == "");
  CHECK(all[0].result == all[1].result);
}

TEST_CASE("ranks: by hand a batch or an epoch that one of them leaves out is an Error of all, at once") {
  std::string const parted = "[fulgurite.distributed.parted]";
  for (auto const& left_out : {Given{1, none, 1, 1}, Given{1, 1, 1, none}, Given{none, none, 1, 1}}) {
    auto const texts = by_hand({1, 1, 1, 1}, left_out);
    for (auto const& text : texts) CHECK(text.starts_with(parted));
    CHECK(by_hand(left_out, left_out) == std::vector<std::string>{"", ""});
  }
  auto const texts = by_hand({1, 1, 1, 1}, {1, 1, 1, 1}, SkipsAlone{});
  for (auto const& text : texts) CHECK(text.starts_with(parted));
}

TEST_CASE("ranks: by hand any number of batches that one of them alone leaves out is found out") {
  for (std::size_t const count : {4U, 8U, 1U << 16U}) {
    Given left_out(count + 2, none), whole(count + 2, 1.0);
    left_out.front() = left_out.back() = 1;
    for (auto const& text : by_hand(whole, left_out)) CHECK(text.starts_with("[fulgurite.distributed.parted]"));
  }
}

TEST_CASE("ranks: by hand, ranks that step different optimizers are told at once, in the last batch, too") {
  for (long const in : {0, 1, 2}) {
    toy::Meeting meeting(2, soon);
    auto const all = toy::on_ranks(meeting, [&](toy::Rank rank) {
      StepsApart model;
      model.in = in;
      auto trainer = make_trainer<StepsApart>({.max_epochs = 1}, rank, Float32{}, Manual{});
      trainer.fit(model, Gaps{{1, 1, 1}});
      return 0;
    });
    for (auto const& rank : all) {
      INFO(rank.error);
      CHECK(rank.error.starts_with("[fulgurite.distributed.parted]"));
      CHECK(rank.error.find("some have stepped optimizer 0") != std::string::npos);
    }
    CHECK(meeting.count("gradients") == std::min(in + 2, 3L));
  }
}
