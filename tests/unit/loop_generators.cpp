// Loaders that make each batch when asked, in the same place, with what the model has learned by then: not read ahead.
#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <list>
#include <optional>
#include <ranges>
#include <string>
#include <tuple>
#include <vector>

#include <fulgurite/data/combined.hpp>
#include <fulgurite/data/pipeline.hpp>

#include "callback_stderr.hpp"
#include "models.hpp"
#include "rows.hpp"
#include "trace.hpp"

using namespace fulgurite;
using toy::Generator;
using toy::note;
using toy::Trace;
using toy::trace;

namespace {

using Numbers = std::vector<double>;

/// `n` batches an epoch: 100 * epoch + batch.
auto numbered(long n) {
  return Generator([n](long epoch, long batch) {
    return batch < n ? std::optional(static_cast<double>(100 * epoch + batch)) : std::nullopt;
  });
}

/// The reference that it gives is to a member of its own.
struct ItselfIterator {
  using difference_type = std::ptrdiff_t;
  using value_type = double;
  long n = 0;
  double at = 0;
  double const& operator*() const { return at; }
  ItselfIterator& operator++() {
    ++at;
    return *this;
  }
  ItselfIterator operator++(int) {
    auto const before = *this;
    ++at;
    return before;
  }
  bool operator==(ItselfIterator const& other) const { return at == other.at; }
};
struct IntoItself {
  long n;
  ItselfIterator begin() const { return {n, 0}; }
  ItselfIterator end() const { return {n, static_cast<double>(n)}; }
};

/// Remembers every batch that each of its steps was given.
struct Sees {
  toy::Tensor p = toy::Tensor::parameter(0.0);
  Numbers trained = {}, validated = {}, tested = {}, predicted = {};
  std::vector<bool> last = {};
  toy::Tensor training_step(double const& batch) {
    trained.push_back(batch);
    return p * toy::Tensor(batch + 1);
  }
  void validation_step(double const& batch, auto& ctx) {
    validated.push_back(batch);
    last.push_back(ctx.is_last_batch());
  }
  void test_step(double const& batch) { tested.push_back(batch); }
  double predict_step(double const& batch) {
    predicted.push_back(batch);
    return batch;
  }
  toy::Sgd configure_optimizers() { return {.params = {p}, .rate = 0.01}; }
};

/// Asks for the pass that batch norms need.
struct AsksForStatistics {
  using Stateless = ByChoice;
  void on_train_epoch_end(auto& ctx) {
    if (ctx.current_epoch() == 0) ctx.request_statistics_pass();
  }
};

/// The parts of two fits that have to agree.
struct Outcomes {
  double weight = 0;
  long steps = 0, logged = 0, total = 0;
  toy::Places validations = {};
  Numbers stepped = {};
  std::vector<toy::Row> rows = {};
  bool last_at_epoch_end = false;
  friend bool operator==(Outcomes const&, Outcomes const&) = default;
};
struct Halves {
  using Stateless = ByChoice;
  double operator()(long moves) const { return std::pow(0.5, static_cast<double>(moves)); }
};
template <Interval When>
struct Scheduled : toy::Slope {
  static constexpr Metric<"seen"> seen{.on_step = Report::yes, .on_epoch = Report::yes};
  using Metrics = MetricList<seen>;
  bool last = false;
  toy::Tensor training_step(double batch, auto& ctx) {
    ctx.log(seen, batch);
    return p * toy::Tensor(batch + 1);
  }
  void validation_step(double) {}
  void on_train_epoch_end(auto& ctx) { last = ctx.is_last_batch(); }
  auto configure_optimizers() {
    return scheduled(toy::Sgd{.params = {p}, .rate = 0.125}, Halves{}, {.interval = When});
  }
};

template <Interval When>
Outcomes outcomes(TrainerOptions const& options, int window, auto&& loader) {
  Scheduled<When> model;
  auto trainer = toy::train<Scheduled<When>>(
      options, Automatic{.accumulate_grad_batches = window, .clip = ClipValue{4.0}}, toy::Positions{}, toy::Rows{});
  trainer.fit(model, loader, toy::batches(1));
  auto const& progress = trainer.progress();
  Outcomes all{.weight = model.p.value(),
               .steps = progress.global_step,
               .logged = progress.logged_steps,
               .total = progress.total_batches};
  all.validations = trainer.template callback<toy::Positions>().validations;
  all.stepped = model.stepped;
  all.rows = trainer.template callback<toy::Rows>().rows;
  all.last_at_epoch_end = model.last;
  return all;
}

/// The batch is the weight when it was made.
struct Actor {
  toy::Tensor p = toy::Tensor::parameter(0.0);
  Numbers weights = {}, batches = {};
  toy::Tensor training_step(double const& batch) {
    note("step");
    weights.push_back(p.value());
    batches.push_back(batch);
    return -p;
  }
  void validation_step(double) { note("validate"); }
  void on_train_batch_start() { note("start"); }
  void on_train_batch_end() { note("end"); }
  void on_train_epoch_start() { note("epoch"); }
  toy::Sgd configure_optimizers() { return {.params = {p}}; }
};

struct Accumulates : toy::P {
  void training_step(double, auto& ctx) {
    ctx.backward(-p);
    if (ctx.closes_window(window)) ctx.step(std::get<0>(ctx.optimizers()));
  }
  int window = 2;
};

}  // namespace

TEST_CASE("one object yielded again and again: every batch made is trained on, in order, whatever K") {
  for (long const n : {1, 2, 3, 8})
    for (int const k : {1, 2, 3}) {
      auto loader = numbered(n);
      Sees model;
      toy::train<Sees>({.max_epochs = 3}, Automatic{.accumulate_grad_batches = k}).fit(model, loader, NoValidation{});
      CHECK(model.trained == loader.made);
      CHECK(loader.made.size() == static_cast<std::size_t>(3 * n));
    }
}

TEST_CASE("every batch made is evaluated when validating, testing, predicting, in the pass for statistics") {
  auto train = numbered(3), val = numbered(4), test = numbered(5), predict = numbered(2);
  Sees model;
  auto trainer = toy::train<Sees>({.max_epochs = 2, .num_sanity_val_steps = 2}, Automatic{}, AsksForStatistics{});
  trainer.fit(model, train, val);
  CHECK(model.trained == train.made);
  CHECK(train.made.size() == 9);  // two epochs, and the pass once more
  CHECK(val.made == Numbers{0, 1, 100, 101, 102, 103, 200, 201, 202,
                            203});  // the sanity check's limit: nothing is made that is not used
  CHECK(model.validated == val.made);
  CHECK(model.last == std::vector<bool>{false, true, false, false, false, false, false, false, false, false});
  trainer.test(model, test);
  CHECK(model.tested == test.made);
  CHECK(test.made.size() == 5);
  CHECK(trainer.predict(model, predict).front() == predict.made);
  CHECK(predict.made.size() == 2);
}

TEST_CASE("an iterator whose reference is a member of its own is not read ahead") {
  STATIC_REQUIRE(std::forward_iterator<ItselfIterator>);  // which is inferred, and wrong
  STATIC_REQUIRE(!BatchesStayValid<IntoItself>);
  Sees model;
  toy::train<Sees>({.max_epochs = 1}, Automatic{}).fit(model, IntoItself{4}, IntoItself{3});
  CHECK(model.trained == Numbers{0, 1, 2, 3});
  CHECK(model.validated == Numbers{0, 1, 0, 1, 2});
}

TEST_CASE("the end found after the last step: weights, steps, validations and rows as with the end known before") {
  int compared = 0;
  said([&] {  // warnings of rare rows
    for (long const n : {1, 2, 3, 4, 5, 7})
      for (int const k : {1, 2, 3, 4})
        for (TrainerOptions const& options :
             {TrainerOptions{.max_epochs = 3, .log_every_n_steps = 1},
              TrainerOptions{
                  .max_epochs = 3, .limit_train_batches = 4, .val_check_interval = 2, .log_every_n_steps = 2},
              TrainerOptions{.max_epochs = 5, .max_steps = 3, .log_every_n_steps = 1},
              TrainerOptions{.max_epochs = 3,
                             .val_check_interval = 3,
                             .check_val_every_n_epoch = std::nullopt,
                             .log_every_n_steps = 1}}) {
          INFO("n = " << n << ", K = " << k);
          auto const made = [n](long, long batch) {
            return batch < n ? std::optional(static_cast<double>(batch)) : std::nullopt;
          };
          CHECK(outcomes<Interval::epoch>(options, k, Generator(made)) ==
                outcomes<Interval::epoch>(options, k, toy::Unsized(static_cast<int>(n))));
          CHECK(outcomes<Interval::step>(options, k, Generator(made)) ==
                outcomes<Interval::step>(options, k, toy::Unsized(static_cast<int>(n))));
          ++compared;
        }
  });
  CHECK(compared == 96);
  auto const ends = outcomes<Interval::epoch>({.max_epochs = 1}, 2, numbered(3));
  CHECK(ends.last_at_epoch_end);
  CHECK(ends.stepped == Numbers{1.5, 3});  // the last window is the mean of what it has
}

TEST_CASE("a generator that acts with the model is never a step stale") {
  Actor model;
  Generator loader([&](long, long batch) {
    if (batch == 3) return std::optional<double>();
    note("make");
    return std::optional(model.p.value());
  });
  trace.clear();
  toy::train<Actor>({.max_epochs = 1, .num_sanity_val_steps = 0}, Automatic{}).fit(model, loader, toy::batches(1));
  CHECK(model.weights == Numbers{0, 1, 2});
  CHECK(model.batches == model.weights);
  CHECK(trace == Trace{"epoch", "make", "start", "step", "end", "make", "start", "step", "end", "make", "start", "step",
                       "end", "validate"});

  Actor another;
  data::Stream stream{[&] {
    return [&, made = 0]() mutable { return made++ == 4 ? std::optional<double>() : std::optional(another.p.value()); };
  }};
  toy::train<Actor>({.max_epochs = 2, .num_sanity_val_steps = 0}, Automatic{}).fit(another, stream, NoValidation{});
  CHECK(another.batches == Numbers{0, 1, 2, 3, 4, 5, 6, 7});
}

namespace {

/// Makes the order of what it stores again at the start of each pass.
struct Shuffled {
  std::vector<double> all = {1, 2};
  auto begin() { return std::swap(all.front(), all.back()), all.begin(); }
  auto end() { return all.end(); }
};

}  // namespace

TEST_CASE("who promises that batches stay valid: containers and who says so; no view, stream or generator") {
  auto stream = data::stream_of([] { return std::vector<double>{1, 2}; });
  using Stream = decltype(stream);
  using Plain = std::vector<double>;
  STATIC_REQUIRE(BatchesStayValid<Plain>);
  STATIC_REQUIRE(BatchesStayValid<Plain const>);
  STATIC_REQUIRE(BatchesStayValid<std::list<double>>);
  STATIC_REQUIRE(BatchesStayValid<double[3]>);
  STATIC_REQUIRE(BatchesStayValid<toy::Unsized>);
  STATIC_REQUIRE(!BatchesStayValid<decltype(numbered(1))>);
  STATIC_REQUIRE(!BatchesStayValid<Stream>);
  auto reused = std::views::iota(0, 3) | std::views::transform([at = 0.0](int i) mutable -> double& { return at = i; });
  STATIC_REQUIRE(!BatchesStayValid<decltype(reused)>);
  STATIC_REQUIRE(BatchesStayValid<decltype(data::combined(Plain{}, Plain{}))>);
  STATIC_REQUIRE(!BatchesStayValid<decltype(data::combined(Plain{}, std::declval<Stream>()))>);
  STATIC_REQUIRE(!BatchesStayValid<decltype(data::named<"s">(std::ref(stream)))>);
  STATIC_REQUIRE(BatchesStayValid<decltype(data::named<"p">(Plain{}))>);
  STATIC_REQUIRE(StoredBatches<Plain>);
  STATIC_REQUIRE(!StoredBatches<toy::Unsized>);
  STATIC_REQUIRE(!StoredBatches<Shuffled>);
  STATIC_REQUIRE(StoredBatches<Plain const>);
  STATIC_REQUIRE(StoredBatches<double[3]>);
  STATIC_REQUIRE(StoredBatches<data::Borrowed<Plain>>);
  STATIC_REQUIRE(!StoredBatches<data::Borrowed<Shuffled>>);
}

TEST_CASE("accumulating by hand over a loader that cannot tell its end is an Error at the first batch") {
  auto const fit = [](int window, auto&& loader) {
    Accumulates model;
    model.window = window;
    make_trainer<Accumulates>({.max_epochs = 1}, toy::Device{}, Float32{}, Manual{}).fit(model, loader);
    return model.p.value();
  };
  CHECK(toy::refusal([&] { fit(2, numbered(3)); }) == "fulgurite.manual.end_unknown");
  CHECK(toy::refusal([&] { fit(2, toy::Unsized(3)); }) == "");
  CHECK(toy::refusal([&] { fit(1, numbered(3)); }) == "");
}
