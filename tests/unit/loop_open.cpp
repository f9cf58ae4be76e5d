// A fit that the program's own loop advances: the same events and weights as trainer.fit, batches that fit into a
// budget of time, loaders whose batches arrive late, and fits that are left open.
#include <catch2/catch_test_macros.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "models.hpp"
#include "toy.hpp"

#include <fulgurite/data/batch_queue.hpp>
#include <fulgurite/data/combined.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;
using namespace std::chrono_literals;

namespace {

/// The hooks of a run, in order.
struct Diary {
  using Stateless = ByChoice;
  std::shared_ptr<std::vector<std::string>> events = std::make_shared<std::vector<std::string>>();
  void on_train_start(auto&) { events->push_back("train_start"); }
  void on_train_epoch_start(auto&) { events->push_back("epoch_start"); }
  void on_train_batch_end(auto& ctx) { events->push_back("batch " + std::to_string(ctx.batch_idx())); }
  void on_train_epoch_end(auto&) { events->push_back("epoch_end"); }
  void on_train_end(auto&) { events->push_back("train_end"); }
  void on_exception(std::exception const& error, auto&) { events->push_back(std::string("exception ") + error.what()); }
  void teardown(auto&) { events->push_back("teardown"); }
};

auto trainer_of(Diary const& listens, TrainerOptions options = {.max_epochs = 2}) {
  return make_trainer<toy::P>(std::move(options), toy::Device{}, Float32{}, Automatic{}, listens);
}

/// A clock that each batch moves on by as much as the test says.
TrainerOptions::Clock::time_point now{};
std::vector<TrainerOptions::Clock::duration> takes{};
struct Slow {
  using Stateless = ByChoice;
  std::size_t next = 0;
  void on_train_batch_end(auto&) { now += takes[next++ % takes.size()]; }
};

/// A strategy that replays, and checks each fourth step, which takes four times as long.
bool check_follows = false;
struct Announcing : toy::Device {
  bool check_is_next() const { return check_follows; }
};
struct EachFourth {
  using Stateless = ByChoice;
  int batches = 0;
  void on_train_batch_end(auto&) {
    now += check_follows ? 4ms : 1ms;
    check_follows = ++batches % 4 == 3;
  }
};

struct Fails {
  using Stateless = ByChoice;
  void on_train_batch_end(auto& ctx) {
    if (ctx.batch_idx() == 1) throw std::runtime_error("broken");
  }
};

/// A model with all steps.
struct Whole : toy::P {
  int validated = 0;
  void validation_step(double, auto&) { ++validated; }
  void test_step(double, auto&) {}
  double predict_step(double batch, auto&) { return batch; }
};

/// Each step depends on all steps before it, and on a number that it draws.
struct DrawnSteps {
  toy::Tensor p = toy::Tensor::parameter(1.0);
  std::vector<toy::Tensor> parameters() const { return {p}; }
  toy::Tensor training_step(double batch) { return p * p * toy::Tensor(0.01 * (batch + toy::draw())); }
  auto configure_optimizers() { return toy::Sgd{.params = {p}, .rate = 0.1, .momentum = 0.9}; }
};

/// Takes batches of two loaders.
struct OfPairs : toy::P {
  toy::Tensor training_step(std::tuple<double, double> const& batch, auto& ctx) {
    return toy::P::training_step(std::get<0>(batch), ctx);
  }
};

}  // namespace

TEST_CASE("an open fit makes the events and the weights of fit") {
  Diary whole, stepped;
  toy::P one, other;
  auto data = toy::batches(3);
  auto first = trainer_of(whole);
  first.fit(one, data);
  auto second = trainer_of(stepped);
  int advanced = 0;
  {
    auto fit = second.open(other, data);
    while (fit.advance() == FitStatus::more) ++advanced;
    CHECK(fit.advance() == FitStatus::finished);
    fit.close();
    fit.close();
    CHECK(fit.advance() == FitStatus::finished);
  }
  CHECK(advanced == 5);
  CHECK(*stepped.events == *whole.events);
  CHECK(other.p.value() == one.p.value());
}

TEST_CASE("an open fit that resumes from a file or a snapshot, inside an epoch, has the bits of fit") {
  auto data = toy::batches(3);
  auto const trainer_for = [](TrainerOptions options) {
    return make_trainer<DrawnSteps>(std::move(options), toy::Device{}, Float32{}, Automatic{});
  };
  DrawnSteps cut;
  auto first = trainer_for({.max_epochs = 3, .max_steps = 4});
  first.fit(cut, data);
  first.save_checkpoint("cut");
  auto const kept = snapshot(first);
  auto const came = [&](bool opens, auto const& from) {
    DrawnSteps net;
    auto trainer = trainer_for({.max_epochs = 3});
    if (opens) {
      auto fit = trainer.open(net, data, from);
      while (fit.advance() != FitStatus::finished) {}
      fit.close();
    } else {
      trainer.fit(net, data, from);
    }
    return std::tuple(net.p.value(), trainer.progress().global_step, toy::world.rng);
  };
  auto const wanted = came(false, CkptPath{"cut"});
  CHECK(std::get<long>(wanted) == 9);
  CHECK(std::get<double>(wanted) != cut.p.value());
  CHECK(came(true, CkptPath{"cut"}) == wanted);
  CHECK(came(false, kept) == wanted);
  CHECK(came(true, kept) == wanted);
}

TEST_CASE("an open fit validates, and does not with NoValidation") {
  auto train = toy::batches(2), val = toy::batches(3);
  auto trainer = make_trainer<Whole>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  auto other = make_trainer<Whole>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  auto const run = [](auto fit) {
    while (fit->advance() != FitStatus::finished) {}
    fit->close();
  };
  Whole net;
  {
    auto fit = trainer.open(net, train, val);
    run(&fit);
  }
  CHECK(net.seen.size() == 2);
  int const checked = net.validated;
  CHECK(checked >= 3);
  {
    auto fit = other.open(net, train, NoValidation{});
    run(&fit);
  }
  CHECK(net.seen.size() == 4);
  CHECK(net.validated == checked);
}

TEST_CASE("a fit that is closed early ends its epoch, steps its window, and leaves the next fit a whole epoch") {
  for (int const window : {1, 4}) {
    CAPTURE(window);
    Diary diary;
    toy::P net, fresh;
    auto data = toy::batches(8);
    auto const trainer_for = [&](int epochs, Diary const& with) {
      return make_trainer<toy::P>(TrainerOptions{.max_epochs = epochs}, toy::Device{}, Float32{},
                                  Automatic{.accumulate_grad_batches = window}, with);
    };
    auto trainer = trainer_for(2, diary);
    {
      auto fit = trainer.open(net, data);
      for (int i = 0; i != 3; ++i) CHECK(fit.advance() == FitStatus::more);
      double const before = net.p.value();
      fit.close();
      CHECK((net.p.value() != before) == (window == 4));
    }
    CHECK(*diary.events == std::vector<std::string>{"train_start", "epoch_start", "batch 0", "batch 1", "batch 2",
                                                    "epoch_end", "train_end", "teardown"});
    // The next fit makes the steps of a whole epoch.
    double const start = net.p.value();
    trainer.fit(net, data);
    Diary other;
    auto untouched = trainer_for(1, other);
    untouched.fit(fresh, data);
    CHECK(net.p.value() - start == fresh.p.value());
    CHECK(net.seen.size() == 3 + 8);
  }
}

TEST_CASE("a fit that is closed before its end says so, and what ended one that was over") {
  auto data = toy::batches(4);
  auto const ended_by = [&](int epochs, int batches, auto... callbacks) {
    toy::P net;
    auto trainer = toy::train<toy::P>({.max_epochs = epochs}, Automatic{}, std::move(callbacks)...);
    auto fit = trainer.open(net, data);
    for (int i = 0; i != batches; ++i) fit.advance();
    fit.close();
    return trainer.outcome().ended_by;
  };
  for (int const batches : {0, 2, 4, 6}) CHECK(ended_by(2, batches) == "close() of the open fit");
  CHECK(ended_by(1, 2) == "close() of the open fit");
  CHECK(ended_by(1, 4) == "max_epochs = 1");
  CHECK(ended_by(1, 4, toy::stop_at(0, 1)) == "a stop that the model or a callback requested");
}

TEST_CASE("advance_for trains on the batches that fit into the budget, and forgets a slow one") {
  now = {};
  takes = {2ms};
  toy::P net;
  auto data = toy::batches(100);
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1, .now = [] { return now; }}, toy::Device{},
                                      Float32{}, Automatic{}, Slow{});
  auto fit = trainer.open(net, data);
  auto const made = [&](auto budget) {
    auto const before = now;
    fit.advance_for(budget);
    return now - before;
  };
  CHECK(made(7ms) == 6ms);  // a fourth batch would end at 8 ms
  CHECK(made(2ms) == 2ms);
  CHECK(made(1ms) == 0ms);  // no batch fits
  takes = {50ms};
  CHECK(made(5ms) == 50ms);  // over by one batch
  takes = {2ms};
  CHECK(made(5ms) == 4ms);  // a single one counts for nothing
  takes = {50ms};
  CHECK(made(5ms) == 50ms);
  takes = {2ms};
  int skipped = 0;
  while (skipped != 20 && made(5ms) == 0ms) ++skipped;
  CHECK(skipped > 0);
  CHECK(skipped <= 8);
  CHECK(made(5ms) == 4ms);
  fit.close();
}

TEST_CASE("advance_for begins a check of replays only where it fits into the budget") {
  now = {};
  toy::P net;
  auto data = toy::batches(100);
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1, .now = [] { return now; }}, Announcing{},
                                      Float32{}, Automatic{}, EachFourth{});
  auto fit = trainer.open(net, data);
  auto const made = [&](auto budget) {
    auto const before = now;
    fit.advance_for(budget);
    return now - before;
  };
  CHECK(made(5ms) == 7ms);  // three replays, and the first check, whose time is not known
  CHECK(made(5ms) == 3ms);  // a check would end at 7 ms
  CHECK(made(5ms) == 5ms);  // the check and a replay
  CHECK(made(3ms) == 2ms);
  CHECK(made(3ms) == 0ms);  // the check does not fit at all
  CHECK(made(3ms) == 0ms);
  CHECK(made(3ms) == 4ms);  // and is made at last
  CHECK(made(3ms) == 3ms);
  fit.close();
}

TEST_CASE("a loader whose batches arrive late makes advance wait without work") {
  Diary listens;
  toy::P net;
  auto const batches = toy::batches(3);
  BatchQueue<std::remove_cvref_t<decltype(batches[0])>> queue;
  auto trainer = trainer_of(listens, {.max_epochs = 1});
  auto fit = trainer.open(net, queue);
  CHECK(fit.advance() == FitStatus::waiting);
  queue.push(batches[0]);
  CHECK(fit.advance() == FitStatus::waiting);  // whether another one follows is not known
  queue.push(batches[1]);
  CHECK(fit.advance() == FitStatus::more);
  CHECK(fit.advance() == FitStatus::waiting);
  queue.push(batches[2]);
  CHECK(fit.advance_for(1h) == FitStatus::waiting);
  queue.close();
  CHECK(toy::refusal([&] { queue.push(batches[0]); }) == "fulgurite.data.queue_closed");
  CHECK(fit.advance() == FitStatus::finished);
  fit.close();
  CHECK(*listens.events == std::vector<std::string>{"train_start", "epoch_start", "batch 0", "batch 1", "batch 2",
                                                    "epoch_end", "train_end", "teardown"});
}

TEST_CASE("combined loaders make advance wait for the one whose batches arrive late") {
  OfPairs net;
  BatchQueue<double> queue;
  auto both = data::combined<data::CombineMode::min_size>(std::ref(queue), toy::batches(3));
  auto trainer = make_trainer<OfPairs>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{});
  auto fit = trainer.open(net, both);
  CHECK(fit.advance() == FitStatus::waiting);
  queue.push(1);
  queue.push(1);
  CHECK(fit.advance() == FitStatus::more);
  CHECK(fit.advance() == FitStatus::waiting);
  queue.close();
  CHECK(fit.advance() == FitStatus::finished);
  fit.close();
  CHECK(net.seen.size() == 2);
}

TEST_CASE("an open fit that is left ends as by an exception, and the trainer can run again") {
  Diary listens;
  Whole net, other;
  auto data = toy::batches(3);
  auto trainer = make_trainer<Whole>(TrainerOptions{.max_epochs = 2}, toy::Device{}, Float32{}, Automatic{}, listens);
  {
    auto fit = trainer.open(net, data, NoValidation{});
    CHECK(fit.advance() == FitStatus::more);
    CHECK(toy::refusal([&] { trainer.fit(net, data, NoValidation{}); }) == "fulgurite.trainer.open_fit");
    CHECK(toy::refusal([&] { trainer.open(net, data, NoValidation{}).close(); }) == "fulgurite.trainer.open_fit");
    CHECK(toy::refusal([&] { trainer.validate(other, data); }) == "fulgurite.trainer.open_fit");
    CHECK(toy::refusal([&] { trainer.test(other, data); }) == "fulgurite.trainer.open_fit");
    CHECK(toy::refusal([&] { trainer.predict(other, data); }) == "fulgurite.trainer.open_fit");
    CHECK(fit.advance() == FitStatus::more);
    CHECK(net.seen.size() == 2);
  }
  REQUIRE(!listens.events->empty());
  CHECK(listens.events->back().starts_with("exception [fulgurite.trainer.left_open]"));
  listens.events->clear();
  trainer.fit(net, data, NoValidation{});
  CHECK(listens.events->back() == "teardown");
}

TEST_CASE("an open fit that failed is over") {
  Diary listens;
  toy::P net;
  auto data = toy::batches(3);
  auto trainer =
      make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, listens, Fails{});
  auto fit = trainer.open(net, data);
  CHECK(fit.advance() == FitStatus::more);
  CHECK_THROWS_AS(fit.advance(), std::runtime_error);
  CHECK(fit.advance() == FitStatus::finished);
  CHECK(listens.events->back() == "exception broken");
  listens.events->clear();
  trainer.open(net, data).close();
  CHECK(listens.events->back() == "teardown");
  fit.close();  // has nothing left to do
  CHECK(listens.events->back() == "teardown");
}

TEST_CASE("a hook may close the fit that is closing, and one whose batch is under way") {
  struct Closes {
    using Stateless = ByChoice;
    std::function<void()> close = [] {};
    void on_train_end(Context&) { close(); }
    void on_exception(std::exception const&, Context&) { close(); }
  };
  for (bool const fails : {false, true}) {
    toy::P net;
    auto data = toy::batches(3);
    auto trainer =
        make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Closes{}, Fails{});
    int closed = 0;
    {
      auto fit = trainer.open(net, data, NoValidation{});
      trainer.callback<Closes>().close = [&] { fit.close(), ++closed; };
      CHECK(fit.advance() == FitStatus::more);
      if (fails) CHECK_THROWS_AS(fit.advance(), std::runtime_error);
      else fit.close();
      CHECK(fit.advance() == FitStatus::finished);
    }
    if (fails) {
      auto left = trainer.open(net, data, NoValidation{});
      trainer.callback<Closes>().close = [&] { left.close(), ++closed; };
    }
    CHECK(closed == (fails ? 2 : 1));  // what is left has failed, and trains to no end
    trainer.callback<Closes>().close = [] {};
    trainer.open(net, data, NoValidation{}).close();
  }
}

namespace {

/// Calls something in a hook of the second batch.
struct InSecond {
  using Stateless = ByChoice;
  std::function<void()> what = [] {};
  void on_train_batch_end(Context& ctx) {
    if (ctx.batch_idx() == 1) what();
  }
};
auto trainer_with(Diary const& listens) {
  return make_trainer<toy::P>(TrainerOptions{.max_epochs = 2}, toy::Device{}, Float32{},
                              Automatic{.accumulate_grad_batches = 3}, InSecond{}, listens);
}

}  // namespace

TEST_CASE("a hook of a batch that closes the fit ends it after that batch, as the program does between two") {
  auto data = toy::batches(4);
  Diary within, between;
  std::vector<double> weights;
  for (bool const in_hook : {true, false}) {
    toy::P net;
    auto trainer = trainer_with(in_hook ? within : between);
    auto fit = trainer.open(net, data);
    if (in_hook) trainer.callback<InSecond>().what = [&] { fit.close(); };
    CHECK(fit.advance() == FitStatus::more);
    CHECK(fit.advance() == (in_hook ? FitStatus::finished : FitStatus::more));
    if (!in_hook) fit.close();
    CHECK(fit.advance() == FitStatus::finished);
    CHECK(trainer.outcome().ended_by == "close() of the open fit");
    weights.push_back(net.p.value());
  }
  CHECK(*within.events == *between.events);
  CHECK(within.events->back() == "teardown");
  CHECK(weights[0] == weights[1]);
}

TEST_CASE("a hook of a batch cannot advance the fit, and may have closed it where the batch fails") {
  auto data = toy::batches(4);
  Diary listens;
  toy::P net;
  auto trainer = trainer_with(listens);
  auto fit = trainer.open(net, data);
  trainer.callback<InSecond>().what = [&] {
    fit.close();
    fit.advance();
  };
  CHECK(fit.advance() == FitStatus::more);
  CHECK(toy::refusal([&] { fit.advance(); }) == "fulgurite.trainer.advance_within");
  CHECK(fit.advance() == FitStatus::finished);
  CHECK(listens.events->back().starts_with("exception [fulgurite.trainer.advance_within]"));
  trainer.callback<InSecond>().what = [] {};
  auto again = trainer.open(net, data);
  // Also where it would not train, since the next batch takes longer than that.
  trainer.callback<InSecond>().what = [&] { again.advance_for(std::chrono::hours(-1)); };
  CHECK(again.advance() == FitStatus::more);
  CHECK(toy::refusal([&] { again.advance(); }) == "fulgurite.trainer.advance_within");
  trainer.callback<InSecond>().what = [] {};
  trainer.open(net, data).close();
}

TEST_CASE("after close the trainer evaluates and fits, while the object of the fit is still there") {
  Whole net;
  auto data = toy::batches(3);
  auto trainer = make_trainer<Whole>(TrainerOptions{.max_epochs = 3}, toy::Device{}, Float32{}, Automatic{});
  auto fit = trainer.open(net, data, NoValidation{});
  CHECK(fit.advance() == FitStatus::more);
  fit.close();
  CHECK(fit.advance() == FitStatus::finished);
  trainer.test(net, data);
  auto again = trainer.open(net, data, NoValidation{});
  CHECK(again.advance() == FitStatus::more);
  again.close();
  trainer.fit(net, data, NoValidation{});
  CHECK(net.seen.size() == 5);
}

TEST_CASE("a full BatchQueue takes no more, and fit waits in the loader") {
  CHECK(toy::refusal([] { BatchQueue<double> one(1); }) == "fulgurite.data.queue_size");
  BatchQueue<double> queue(2);
  CHECK(queue.try_push(1));
  CHECK(queue.try_push(1));
  CHECK(!queue.try_push(1));
  CHECK(queue.size_waiting() == 2);
  toy::P net;
  std::thread other([&] {
    for (int i = 0; i != 4; ++i) queue.push(1);
    queue.close();
  });
  Diary diary;
  auto trainer = trainer_of(diary, {.max_epochs = 2, .limit_train_batches = 3});
  trainer.fit(net, queue);
  other.join();
  CHECK(net.seen.size() == 6);
  CHECK(queue.size_waiting() == 0);
  CHECK(toy::refusal([&] { queue.try_push(1); }) == "fulgurite.data.queue_closed");
}

TEST_CASE("a loader that cannot say whether a batch waits ends the fit as any exception does") {
  struct Broken : std::vector<double> {
    using std::vector<double>::vector;
    bool batch_is_ready() const { throw std::runtime_error("no device"); }
  };
  Diary diary;
  toy::P net;
  Broken data{1, 1};
  auto trainer = trainer_of(diary);
  auto fit = trainer.open(net, data);
  CHECK_THROWS_AS(fit.advance(), std::runtime_error);
  CHECK(diary.events->back() == "exception no device");
  CHECK(fit.advance() == FitStatus::finished);
}
