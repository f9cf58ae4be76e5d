// Random plans of a fit: what the loops do is, event by event, what the plain reference in tests/reference says.
#include <catch2/catch_test_macros.hpp>

#include <string>
#include <type_traits>
#include <vector>

#include "callback_stderr.hpp"
#include "reference/fits.hpp"
#include "reference/random.hpp"
#include "reference/show.hpp"

using namespace fulgurite;
using namespace reference;

namespace {

/// How a fit is gone on with: as the trainer does it, batch by batch, or a few batches so and the others at once.
enum class Pace { trainer, batches, mixed };
Pace pace = Pace::trainer;

template <class M, class Source>
void fit_in_pieces(Plan const& plan, M& model, Source source) {
  using Key = Run<M, toy::Device, Float32, Automatic>;
  loop::State<Key> state(loop::Asked(options(plan)), reference::automatic(plan), toy::Device{}, Float32{}, &model);
  using Callbacks = Slots<EMAWeightAveraging, TellsOfClearing>;
  Pack<EMAWeightAveraging, TellsOfClearing> pack{Callbacks(average_of(plan), telling_of<M>(plan))};
  loop::OpenFit<Key, Pack<EMAWeightAveraging, TellsOfClearing>, Source> fit(state, pack, source);
  int batches = 0;
  while ((pace == Pace::batches || batches++ != 4) && fit.advance()) {}
  fit.advance_to_end();
  fit.close();
}

Lines loops(Plan const& plan) {
  return heard_of(plan, [&]<class M>(M& model, auto how, auto&& training, auto&& validation) {
    using Training = std::remove_reference_t<decltype(training)>;
    using Validation = std::remove_reference_t<decltype(validation)>;
    if constexpr (std::is_same_v<M, Planned> &&
                  std::is_same_v<std::remove_cvref_t<decltype(*std::begin(training))>, double>)
      if (pace != Pace::trainer)
        return fit_in_pieces(plan, model, loop::GivenLoaders<Training, Validation>{training, validation});
    auto trainer = make_trainer<M>(options(plan), toy::Device{}, Float32{}, how, average_of(plan), telling_of<M>(plan));
    trainer.fit(model, training, validation);
  });
}

bool differs(Plan const& plan) { return loops(plan) != reference::events(plan); }

/// What is wrong, said with a plan as small as leaving things out makes it; "" where nothing is.
std::string difference(Plan plan) {
  if (!differs(plan)) return "";
  auto const still = [](Plan const& less) { return reference::acceptable(less) && differs(less); };
  for (bool found = true; found;) {
    auto const smaller = reference::smaller(plan);
    auto const less = std::ranges::find_if(smaller, still);
    found = less != smaller.end();
    if (found) plan = *less;
  }
  return reference::shown(plan) + "\n" + reference::parting(reference::events(plan), loops(plan));
}

/// The number behind `mark` in each line that begins with `event`.
std::vector<double> numbers(Lines const& lines, std::string const& event, std::string const& mark) {
  std::vector<double> all;
  for (auto const& line : lines)
    if (line.starts_with(event)) all.push_back(std::stod(line.substr(line.find(mark) + mark.size())));
  return all;
}

/// A plan with the gradients of its steps, and global_step at each validation, by the specification's own cases.
struct Case {
  char const* what;
  Plan plan;
  std::vector<double> gradients = {}, validated_at = {};
};
std::vector<Case> const hard = {
    {"C47, D2: a stop inside a window",
     {.max_epochs = 5,
      .n = 8,
      .validation = 1,
      .accumulate_grad_batches = {{0, 4}},
      .stops = {{Stops::train_batch_end, 1, 1}}},
     {2.5, 6.5, 101.5},
     {2, 3}},
    {"D2: a stop that validation asks for inside a window",
     {.max_epochs = 5,
      .n = 8,
      .validation = 1,
      .val_check_batches = 2,
      .accumulate_grad_batches = {{0, 4}},
      .stops = {{Stops::validation_end, 0, 1}},
      .log_every_n_steps = 1},
     {1.5},
     {0}},
    {"C48: a stop before training, borne until min_steps",
     {.max_epochs = 5, .min_steps = 3, .n = 2, .validation = 1, .stops = {{Stops::fit_start}}},
     {1, 2, 101},
     {2, 3}},
    {"C54, D2: skip_epoch inside a window",
     {.max_epochs = 2,
      .n = 5,
      .validation = 1,
      .accumulate_grad_batches = {{0, 4}},
      .schedule = Moves::epoch,
      .skips = {{0, 2}, {1, 2}}},
     {1.5, 101.5}},
    {"a generator: its last window and what an epoch's end does come after the last batch's end hooks",
     {.max_epochs = 2,
      .n = 5,
      .sized = false,
      .generated = true,
      .limit_train_batches = 20,
      .validation = 1,
      .accumulate_grad_batches = {{0, 3}},
      .schedule = Moves::epoch,
      .log_every_n_steps = 1},
     {2, 4.5, 102, 104.5},
     {2, 4}},
    {"C36: max_steps inside an epoch",
     {.max_epochs = 9, .max_steps = 5, .n = 4, .validation = 1, .schedule = Moves::epoch},
     {1, 2, 3, 4, 101},
     {4}},
    {"C25, D11: an unsized loader that is shorter than the limit; D1: its last window",
     {.n = 7, .sized = false, .limit_train_batches = 20, .validation = 1, .accumulate_grad_batches = {{0, 3}}},
     {2, 5, 7},
     {3}},
    {"C17: validation every 3 batches, counted across epochs",
     {.max_epochs = -1,
      .max_steps = 12,
      .n = 4,
      .validation = 1,
      .val_check_batches = 3,
      .check_val_every_n_epoch = std::nullopt},
     {1, 2, 3, 4, 101, 102, 103, 104, 201, 202, 203, 204},
     {3, 6, 9, 12}},
    {"validation inside a window, before it and at its end",
     {.n = 5, .validation = 2, .val_check_batches = 1, .num_sanity_val_steps = -1, .accumulate_grad_batches = {{0, 2}}},
     {1.5, 3.5, 5},
     {0, 0, 1, 1, 2, 3}},
    {"C56: steps that return none, one of them a window's first",
     {.n = 4, .accumulate_grad_batches = {{0, 2}}, .none_losses = {{0, 1}, {0, 2}}},
     {0.5, 2}},
    {"a window that opens with a batch that is none: those after it stay, so there are as many as were estimated",
     {.n = 5, .none_batches = {0}, .accumulate_grad_batches = {{0, 2}}, .log_every_n_steps = 0},
     {2, 3.5, 5}},
    {"a skipped batch counts in validation every so many batches of the run",
     {.max_epochs = 3,
      .n = 3,
      .validation = 1,
      .val_check_batches = 4,
      .check_val_every_n_epoch = std::nullopt,
      .skips = {{0, 1}}},
     {1, 101, 102, 103, 201, 202, 203},
     {3, 7}},
    {"a window closed by a batch that is none",
     {.n = 4, .none_batches = {1}, .accumulate_grad_batches = {{0, 2}}, .log_every_n_steps = 0},
     {1, 3.5}},
    {"windows that change with the epoch, D1",
     {.max_epochs = 2, .n = 6, .accumulate_grad_batches = {{0, 2}, {1, 4}}},
     {1.5, 3.5, 5.5, 102.5, 105.5}},
};

}  // namespace

TEST_CASE("the plans that are known to be hard: the loops do what the reference says, and both what section 11 says") {
  for (auto const& known : hard) {
    INFO(known.what);
    std::string wrong;
    said([&] { wrong = difference(known.plan); });
    CHECK(wrong == "");
    auto const events = reference::events(known.plan);
    CHECK(numbers(events, "step rate", "gradient=") == known.gradients);
    CHECK(numbers(events, "validation_start", "gs ") == known.validated_at);
  }
}

TEST_CASE("3000 random plans: every event, gradient, rate, counter and row of a fit is that of the reference",
          "[long]") {
  Plans random(1);
  std::string first;
  int different = 0;
  said([&] {  // warnings of rare rows
    for (int i = 0; i != 3000; ++i) {
      Plan const plan = random.next();
      if (differs(plan) && different++ == 0) first = difference(plan);
    }
  });
  INFO(different << " plans differ; the first, made smaller:\n" << first);
  CHECK(different == 0);
}

TEST_CASE("the same of a fit that is opened, gone on with batch by batch, wholly or at first, and closed") {
  for (auto const way : {Pace::batches, Pace::mixed}) {
    pace = way;
    Plans random(2);
    std::string first;
    int different = 0;
    said([&] {
      for (int i = 0; i != 1000; ++i) {
        Plan const plan = random.next();
        if (differs(plan) && different++ == 0) first = difference(plan);
      }
    });
    pace = Pace::trainer;
    INFO(different << " plans differ; the first, made smaller:\n" << first);
    CHECK(different == 0);
  }
}

TEST_CASE("a plan that differs is shown as it is written, and where the traces part") {
  Plan const plan{
      .n = 3, .validation = 1, .accumulate_grad_batches = {{0, 2}, {1, 3}}, .stops = {{Stops::validation_end, 0, 2}}};
  CHECK(reference::shown(plan) == "Plan{.n = 3, .validation = 1, .accumulate_grad_batches = {{0, 2}, {1, 3}}, "
                                  ".stops = {{reference::Where::validation_end, 0, 2}}}");
  CHECK(reference::shown({}) == "Plan{}");
  CHECK(reference::shown({.average = reference::Average{2, 1, 0}, .mode = reference::Mode::slices}) ==
        "Plan{.average = reference::Average{2, 1, 0}, .mode = reference::Mode::slices}");
  Lines const expected{"1", "2", "3", "4", "5", "6", "7"};
  CHECK(reference::parting(expected, {"1", "2", "3", "4", "5", "6"}) ==
        "    2\n    3\n    4\n    5\n    6\n  reference: 7\n  loops:     (the end)\n");
}
