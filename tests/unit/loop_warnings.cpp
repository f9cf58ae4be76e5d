// The one channel for warnings: of the library, of callbacks and of models; held, printed, silenced by identifier.
#include <catch2/catch_test_macros.hpp>

#include <stdexcept>
#include <string>
#include <vector>

#include "callback_stderr.hpp"
#include "models.hpp"

using namespace fulgurite;
using Said = std::vector<std::string>;

namespace {

/// Warns of the same thing in each batch, and of each batch.
struct Complains {
  using Stateless = ByChoice;
  void on_train_batch_end(auto& ctx) {
    ctx.warn("mine.batch.any", "batch " + std::to_string(ctx.batch_idx()) + " ended");
    ctx.warn_each("mine.batch.each", "batch " + std::to_string(ctx.batch_idx()) + " ended");
  }
};

struct Worried : toy::P {
  toy::Tensor training_step(double batch, auto& ctx) {
    ctx.warn("model.worry", "a step");
    return toy::P::training_step(batch, ctx);
  }
};

struct Unspeakable {
  using Stateless = ByChoice;
  void on_fit_start(auto& ctx) { ctx.warn("Not an identifier", "x"); }
};

/// Ends the run, and fails once more while it is cleaned up.
struct FailsTwice {
  using Stateless = ByChoice;
  void on_train_start() { throw std::runtime_error("first"); }
  void on_exception(std::exception const&, auto&) { throw std::runtime_error("second"); }
};

template <class M = toy::P, class... Cs>
struct Told {
  Said warnings = {};
  std::string printed = {};

  Told(TrainerOptions options, Cs... callbacks) {
    M model;
    printed = probe::said([&] {
      auto trainer = toy::train<M>(std::move(options), {}, callbacks...);
      try {
        trainer.fit(model, toy::batches(2));
      } catch (std::runtime_error const&) {}
      warnings = trainer.warnings();
    });
  }
};

Said const both{"[mine.batch.any] batch 0 ended", "[mine.batch.each] batch 0 ended", "[mine.batch.each] batch 1 ended"};

}  // namespace

TEST_CASE("warnings: ctx.warn says a thing once for its identifier, ctx.warn_each once for each sentence") {
  Told<toy::P, Complains> const told({.max_epochs = 2}, Complains{});
  CHECK(told.warnings == both);
  CHECK(told.printed == "warning: " + both[0] + "\nwarning: " + both[1] + "\nwarning: " + both[2] + "\n");
  CHECK(Told<Worried>({.max_epochs = 2}).warnings == Said{"[model.worry] a step"});
}

TEST_CASE("warnings: what is silenced is not printed, and held all the same") {
  Told<toy::P, Complains> const told({.max_epochs = 1, .silence = {"mine.batch.each"}}, Complains{});
  CHECK(told.warnings == both);
  CHECK(told.printed == "warning: " + both[0] + "\n");
  CHECK(Told<>({.max_epochs = 1, .fast_dev_run = 1, .silence = {"fulgurite.options.dev_run"}}).printed.empty());
}

TEST_CASE("warnings: what the library says elsewhere goes the same way") {
  CHECK(Told<>({.fast_dev_run = 1}).warnings ==
        Said{"[fulgurite.options.dev_run] fast_dev_run: 1 batch of each loop, one epoch, no sanity check"});
  Told<toy::P, FailsTwice> const failed({.max_epochs = 1}, FailsTwice{});
  CHECK(failed.warnings ==
        Said{"[fulgurite.exception.second] after the exception that ended the run, this failed too: second"});
  CHECK(failed.printed == "warning: " + failed.warnings.front() + "\n");
  Told<toy::P, FailsTwice> const hushed({.max_epochs = 1, .silence = {"fulgurite.exception.second"}}, FailsTwice{});
  CHECK(hushed.warnings == failed.warnings);
  CHECK(hushed.printed.empty());
}

TEST_CASE("warnings: an identifier has a form, and one of the library's is known to it") {
  auto const silenced = [](std::string_view identifier) { return toy::refusal([&] { Silence{identifier}; }); };
  CHECK(silenced("fulgurite.capture.eager") == "");
  CHECK(silenced("mine.batch.any") == "");
  for (auto const* wrong : {"fulgurite.capture.eagre", "capture", "Capture.eager", ".capture", "a..b", ""})
    CHECK(silenced(wrong) == "fulgurite.options.silence");
  toy::P model;
  CHECK(toy::refusal([&] { toy::train<toy::P>({.max_epochs = 1}, {}, Unspeakable{}).fit(model, toy::batches(1)); }) ==
        "fulgurite.context.warning");
}
