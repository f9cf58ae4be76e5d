// Limits of loaders, and what is refused before anything starts.
#include <catch2/catch_test_macros.hpp>

#include <limits>

#include "models.hpp"
#include "trace.hpp"

using namespace fulgurite;

namespace {

struct Evaluated : toy::Validated {
  int tested = 0;
  std::vector<double> validated = {};
  void validation_step(double batch) { validated.push_back(batch); }
  void test_step(double) { ++tested; }
  double predict_step(double batch) { return batch; }
};

/// Refused options: `said` holds the sentence, and nothing has run.
std::string refused(TrainerOptions options, std::string* said = nullptr, Automatic how = {}) {
  toy::Everything model;
  toy::Everywhere data;
  toy::trace.clear();
  auto identifier =
      toy::refusal([&] { toy::train<toy::Everything>(options, how, toy::Witness{}).fit(model, data); }, said);
  CHECK(toy::trace.empty());
  return identifier;
}

bool names(std::string const& said, std::string const& option, std::string const& value) {
  return said.find(option) != std::string::npos && said.find(value) != std::string::npos;
}

struct Lying {
  std::vector<double> values;
  std::size_t claimed;
  auto begin() const { return values.begin(); }
  auto end() const { return values.end(); }
  std::size_t size() const { return claimed; }
};

}  // namespace

TEST_CASE("what is out of range is named with its value, and no hook has run") {
  std::string said;
  auto const range = "fulgurite.options.range";
  CHECK(refused({.max_epochs = 1, .min_epochs = -1}) == range);
  CHECK(refused({.max_epochs = 1, .min_steps = -1}) == range);
  CHECK(refused({.max_epochs = 1, .check_val_every_n_epoch = 0}, &said) == range);
  CHECK(names(said, "check_val_every_n_epoch", "0"));
  CHECK(refused({.max_epochs = 1, .num_sanity_val_steps = -2}) == range);
  CHECK(refused({.max_epochs = 1, .log_every_n_steps = -1}) == range);
  CHECK(refused({.max_time = Seconds(-1)}) == range);
  CHECK(refused({.max_time = Seconds(std::numeric_limits<double>::quiet_NaN())}) == range);
  CHECK(refused({.max_steps = -1}) == "fulgurite.options.no_end");
  CHECK(refused({.max_epochs = 1}, &said, Automatic{.clip = ClipValue{-1.0}}) == "fulgurite.options.clip");
  CHECK(names(said, "clip", "-1"));
  CHECK(refused({.max_epochs = 1}, &said, Automatic{.accumulate_grad_batches = -3}) == "fulgurite.options.accumulate");
}

TEST_CASE("limits of evaluations hold for each loader, and an Error names the option it came from") {
  Evaluated model;
  auto trainer = toy::train<Evaluated>({.max_epochs = 1,
                                        .limit_val_batches = 2,
                                        .limit_test_batches = Fraction{0.5},
                                        .limit_predict_batches = 3,
                                        .num_sanity_val_steps = 0},
                                       Automatic{});
  trainer.fit(model, toy::batches(1), std::tuple(toy::batches(3), toy::batches(1, 10), toy::batches(9, 20)));
  CHECK(model.validated == std::vector<double>{0, 1, 10, 20, 21});
  trainer.test(model, toy::batches(9));
  CHECK(model.tested == 4);
  CHECK(trainer.predict(model, toy::batches(9)).front() == std::vector<double>{0, 1, 2});

  std::string said;
  CHECK(toy::refusal([&] { trainer.test(model, toy::Unsized(3)); }, &said) == "fulgurite.options.fraction_of_unsized");
  CHECK(said.find("limit_test_batches") != std::string::npos);
}

TEST_CASE("a fraction of an unsized validation loader is refused before the first training batch, without a sanity "
          "check, too") {
  toy::Validated model;
  auto trainer = toy::train<toy::Validated>(
      {.max_epochs = 1, .limit_val_batches = Fraction{0.5}, .num_sanity_val_steps = 0}, Automatic{});
  std::string said;
  CHECK(toy::refusal([&] { trainer.fit(model, toy::batches(3), toy::Unsized(3)); }, &said) ==
        "fulgurite.options.fraction_of_unsized");
  CHECK(said.find("limit_val_batches") != std::string::npos);
  CHECK(model.seen.empty());
}

TEST_CASE("a loader that has fewer batches than its size() says is found out, and so is one without any") {
  toy::P model;
  auto trainer = toy::train<toy::P>({.max_epochs = 1}, Automatic{});
  std::string said;
  CHECK(toy::refusal([&] { trainer.fit(model, Lying{toy::batches(2), 3}); }, &said) == "fulgurite.data.size");
  CHECK(names(said, "promised 3", "ended after 2"));
  CHECK(toy::refusal([&] { trainer.fit(model, Lying{{}, 3}); }) == "fulgurite.data.size");
  CHECK(toy::refusal([&] { toy::train<toy::P>({.max_steps = 3}, Automatic{}).fit(model, toy::Unsized(0)); }) ==
        "fulgurite.data.empty");
}
