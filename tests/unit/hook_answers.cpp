// Who hears an event first, in which form, and which answer counts.
#include <catch2/catch_test_macros.hpp>

#include "models.hpp"
#include "trace.hpp"

using namespace fulgurite;
using toy::note;
using toy::Trace;
using toy::trace;

namespace {

template <char Name, Order Group>
struct Ranked {
  static constexpr Order order = Group;
  void on_train_epoch_start() { note(std::string("start ") + Name); }
  void on_train_epoch_end() { note(std::string("end ") + Name); }
  void on_validation_end() { note(std::string("validated ") + Name); }
};
struct Told : toy::Validated {
  void on_train_epoch_start() { note("start model"); }
  void on_train_epoch_end() { note("end model"); }
  void on_validation_end() { note("validated model"); }
};

/// Hears every event that can answer, and answers Stop at one of them.
template <int Number>
struct Answers {
  using Stateless = ByChoice;
  std::string stops_at;
  Flow batch = Flow::proceed;
  Stop answer(std::string const& what) {
    note(std::to_string(Number) + " " + what);
    return Stop{what == stops_at};
  }
  Stop on_fit_start() { return answer("fit_start"); }
  Stop on_train_start() { return answer("train_start"); }
  Stop on_train_epoch_start() { return answer("epoch_start"); }
  Flow on_train_batch_start() {
    note(std::to_string(Number) + " batch_start");
    return batch;
  }
  Stop on_train_batch_end() { return answer("batch_end"); }
  Stop on_validation_start() { return answer("val_start"); }
  Stop on_validation_batch_end() { return answer("val_batch_end"); }
  Stop on_validation_epoch_end() { return answer("val_epoch_end"); }
  Stop on_validation_end() { return answer("val_end"); }
  Stop on_train_epoch_end() { return answer("epoch_end"); }
};
struct Answering : toy::Validated {
  std::string stops_at = "";
  Stop on_train_batch_end(auto&) {
    note("model batch_end");
    return Stop{stops_at == "batch_end"};
  }
};

/// Steps taken (n3, E5, validation after each epoch) when the first or second callback, or the model, stops there.
long steps(std::string const& first, std::string const& second, std::string const& model_stops = "",
           Flow batch = Flow::proceed) {
  Answering model;
  model.stops_at = model_stops;
  auto trainer = toy::train<Answering>({.max_epochs = 5, .num_sanity_val_steps = 0}, Automatic{},
                                       Answers<1>{.stops_at = first, .batch = batch}, Answers<2>{.stops_at = second});
  trace.clear();
  trainer.fit(model, toy::batches(3), toy::batches(1));
  return trainer.progress().global_step;
}

/// Every form of one event.
struct Forms {
  using Stateless = ByChoice;
  std::vector<std::string> seen = {};
  void on_train_batch_start(auto& batch, auto& ctx) {
    seen.push_back(std::to_string(ctx.batch_idx()) + ":" + std::to_string(int(batch)));
  }
  void on_train_batch_end(auto& outputs, auto& batch, auto&) {
    seen.push_back(std::to_string(int(outputs.loss.value())) + ":" + std::to_string(int(batch)));
  }
  void on_before_backward(auto& loss, auto&) { seen.push_back("loss " + std::to_string(int(loss.value()))); }
  void on_before_zero_grad(auto& optimizer, auto&) { seen.push_back("clears " + std::to_string(optimizer.clears)); }
  void on_before_optimizer_step(auto& optimizer, auto&) { seen.push_back("steps " + std::to_string(optimizer.steps)); }
};

}  // namespace

TEST_CASE("callbacks hear before the model, in the order of their groups; of a training epoch's end the model hears "
          "before monitors and checkpoints") {
  Told model;
  auto trainer =
      toy::train<Told>({.max_epochs = 1, .num_sanity_val_steps = 0}, Automatic{}, Ranked<'c', Order::checkpoint>{},
                       Ranked<'m', Order::monitor>{}, Ranked<'n', Order::normal>{}, Ranked<'p', Order::progress>{},
                       Ranked<'t', Order::tuner>{}, Ranked<'o', Order::normal>{});
  trace.clear();
  trainer.fit(model, toy::batches(1), toy::batches(1));
  CHECK(trace == Trace{"start t",     "start n",         "start o",     "start p",     "start m",     "start c",
                       "start model", "validated t",     "validated n", "validated o", "validated p", "validated m",
                       "validated c", "validated model", "end t",       "end n",       "end o",       "end p",
                       "end model",   "end m",           "end c"});
}

TEST_CASE("Stop is honoured from each hook that may answer, whoever gives it") {
  CHECK(steps("", "") == 15);
  CHECK(steps("fit_start", "") == 0);
  CHECK(steps("", "fit_start") == 0);
  CHECK(steps("train_start", "") == 0);
  CHECK(steps("", "epoch_start") == 0);
  CHECK(steps("batch_end", "") == 1);
  CHECK(steps("", "batch_end") == 1);
  CHECK(steps("", "", "batch_end") == 1);
  for (auto const* where : {"val_start", "val_batch_end", "val_epoch_end", "val_end", "epoch_end"})
    CHECK(steps("", where) == 3);
}

TEST_CASE("every callback, and the model, hears an event that somebody before it has answered with Stop") {
  steps("batch_end", "");
  auto const first = std::find(trace.begin(), trace.end(), "1 batch_end");
  REQUIRE(trace.end() - first > 2);
  CHECK(Trace(first, first + 3) == Trace{"1 batch_end", "2 batch_end", "model batch_end"});
}

TEST_CASE("the most severe answer wins: skip_epoch over proceed, Stop over skip_epoch") {
  CHECK(steps("", "", "", Flow::skip_epoch) == 0);
  CHECK(toy::noted("2 batch_start") == 5);
  CHECK(steps("", "", "", Flow::stop) == 1);
  static_assert(more_severe(Flow::proceed, Flow::skip_epoch) == Flow::skip_epoch);
  static_assert(more_severe(Flow::stop, Flow::skip_epoch) == Flow::stop);
}

TEST_CASE("an event may take any suffix of what there is") {
  toy::P model;
  auto trainer = toy::train<toy::P>({.max_epochs = 1}, Automatic{.accumulate_grad_batches = 2}, Forms{});
  trainer.fit(model, toy::batches(2));
  CHECK(trainer.callback<Forms>().seen ==
        std::vector<std::string>{"0:0", "clears 0", "loss 0", "0:0", "1:1", "loss 0", "steps 0", "0:1"});
}
