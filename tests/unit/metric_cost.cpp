// What logging costs: one reading of a waiting device for each row of the log and none otherwise, and no allocation in
// a warm step.
#include <catch2/catch_test_macros.hpp>

#include <cstdlib>
#include <new>

#include "models.hpp"
#include "rows.hpp"

using namespace fulgurite;
using toy::Tensor;

namespace {
long allocations = 0;
}

// The whole test program counts; only differences are looked at. ThreadSanitizer has these operators itself, and then
// no allocation is counted.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FULGURITE_TEST_COUNTS_NOTHING
#endif
#endif
#ifndef FULGURITE_TEST_COUNTS_NOTHING
void* operator new(std::size_t size) {
  ++allocations;
  if (void* p = std::malloc(size)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
#endif

namespace {

/// Does nothing, and logs it: the loss and a number each step.
struct Null {
  static constexpr Metric<"loss"> loss{};
  static constexpr Metric<"number"> number{};
  using Metrics = MetricList<loss, number>;
  Tensor p = Tensor::parameter(0.0);
  Tensor training_step(double batch, auto& ctx) {
    ctx.log(loss, p);
    ctx.log(number, batch);
    return p;
  }
  void validation_step(double, auto& ctx) { ctx.log(loss, p); }
  toy::Sgd configure_optimizers() { return toy::Sgd{.params = {p}, .rate = 0}; }
};

/// Asks for the loss without waiting, then waiting.
struct Asks : Null {
  std::vector<bool> waits = {}, known = {};
  std::vector<long> reads = {};
  void ask(auto& ctx) {
    waits.push_back(ctx.value_waits(loss));
    known.push_back(ctx.known(loss).has_value());
    reads.push_back(toy::world.reads);
  }
  void on_train_batch_end(auto& ctx) {
    ask(ctx);
    ctx.value(loss);
    ask(ctx);
  }
};

/// Listens, as a progress bar does.
struct Hears {
  using Stateless = ByChoice;
  double sum = 0;
  Flow on_train_batch_start(auto&, auto&) { return Flow::proceed; }
  Stop on_train_batch_end(auto& ctx) {
    sum += ctx.known(Null::number).value_or(0);
    return Stop{false};
  }
};

template <class Loader, class... Cs>
long allocations_of(long steps, bool waits, int every, int k, Loader&& loader, Cs... callbacks) {
  Null model;
  auto trainer = toy::train<Null>({.max_epochs = 1, .limit_train_batches = steps, .log_every_n_steps = every},
                                  Automatic{.accumulate_grad_batches = k}, callbacks...);
  toy::world.device_waits = waits;
  long const before = allocations;
  trainer.fit(model, loader, NoValidation{});
  long const after = allocations;
  toy::world.device_waits = false;
  CHECK(trainer.progress().global_step == steps / k);
  return after - before;
}

long reads(TrainerOptions options, int n, int validation, Automatic how = {}) {
  Null model;
  options.max_epochs = 1;
  options.num_sanity_val_steps = 0;
  auto trainer = toy::train<Null>(options, how, toy::Rows{}, Hears{});
  toy::world.device_waits = true;
  toy::world.reads = 0;
  trainer.fit(model, toy::batches(n), toy::batches(validation));
  toy::world.device_waits = false;
  return toy::world.reads;
}

}  // namespace

TEST_CASE("a fit of 2000 steps allocates exactly as often as one of 1000: values at hand or on a device, sized or not, "
          "with callbacks") {
  auto const sized = toy::batches(2000);
  toy::Unsized const unsized(3000);
  for (bool waits : {false, true})
    for (int every : {50, 1})
      for (int k : {1, 4}) {
        CHECK(allocations_of(2000, waits, every, k, sized) == allocations_of(1000, waits, every, k, sized));
        CHECK(allocations_of(2000, waits, every, k, unsized) == allocations_of(1000, waits, every, k, unsized));
        CHECK(allocations_of(2000, waits, every, k, sized, Hears{}) ==
              allocations_of(1000, waits, every, k, sized, Hears{}));
      }
  CHECK(allocations_of(2000, true, 0, 1, sized) == allocations_of(1000, true, 0, 1, sized));
#ifndef FULGURITE_TEST_COUNTS_NOTHING
  CHECK(allocations_of(1000, false, 50, 1, sized) > 0);  // the counter counts
#endif
}

TEST_CASE("a waiting device is read once for each row of the log, and for nothing else") {
  CHECK(reads({.limit_val_batches = 0, .log_every_n_steps = 5}, 20, 0) == 4);
  CHECK(reads({.limit_val_batches = 0, .log_every_n_steps = 1}, 20, 0) == 20);
  CHECK(reads({.limit_val_batches = 0, .log_every_n_steps = 5}, 20, 0, {.accumulate_grad_batches = 2}) == 2);
}

TEST_CASE("what is left over is read once at the epoch's end; an evaluation is read once") {
  CHECK(reads({.limit_val_batches = 0, .log_every_n_steps = 15}, 20, 0) == 2);
  CHECK(reads({.limit_val_batches = 0, .log_every_n_steps = 0}, 20, 0) == 1);
  CHECK(reads({.log_every_n_steps = 5}, 20, 7) == 4 + 1);
}

TEST_CASE("values at hand are never read in bulk") {
  Null model;
  toy::world.reads = 0;
  toy::train<Null>({.max_epochs = 1, .log_every_n_steps = 1}, Automatic{}, toy::Rows{})
      .fit(model, toy::batches(9), toy::batches(3));
  CHECK(toy::world.reads == 0);
}

TEST_CASE("ctx.value waits and reads, ctx.known does not; value_waits tells") {
  Asks model;
  toy::world.device_waits = true;
  toy::world.reads = 0;
  toy::train<Asks>({.max_epochs = 1}, Automatic{}).fit(model, toy::batches(2), NoValidation{});
  toy::world.device_waits = false;
  using Bools = std::vector<bool>;
  CHECK(model.waits == Bools{true, false, true, false});
  CHECK(model.known == Bools{false, true, true, true});  // what was read before is known, if not the newest
  CHECK(model.reads == std::vector<long>{0, 1, 1, 2});
}

TEST_CASE("4096 values wait at most") { CHECK(reads({.limit_val_batches = 0, .log_every_n_steps = 0}, 10000, 0) == 3); }
