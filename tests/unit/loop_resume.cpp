// A fit that is stopped anywhere and gone on with does what the unbroken one still had to do: event by event, gradient
// by gradient, row by row.
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "callback_stderr.hpp"
#include "reference/fits.hpp"
#include "reference/random.hpp"
#include "reference/show.hpp"

using namespace fulgurite;
using namespace reference;

namespace {

/// A file, and what had been heard when it was written.
struct Cut {
  std::string file;
  std::size_t heard;
};
std::vector<Cut> cuts;

/// Asks for a file at each event, as long as it is told to; one that goes on forgets what was heard while it opened.
struct Saves {
  using Stateless = ByChoice;
  static constexpr Order order = Order::checkpoint;
  bool saves = true;
  bool waiting = false;

  void on_fit_start(auto& ctx) { ask(ctx); }
  void on_train_start(auto& ctx) {
    ask(ctx);
    if (saves) return;
    toy::world.restored = [] { heard.clear(); };  // the last time when all is as it was
  }
  void on_train_epoch_start(auto& ctx) { ask(ctx); }
  void on_train_batch_start(auto& ctx) { ask(ctx); }
  void on_train_batch_end(auto& ctx) { ask(ctx); }
  void on_validation_end(auto& ctx) { ask(ctx); }
  void on_train_epoch_end(auto& ctx) { ask(ctx); }
  void on_train_end(auto& ctx) { ask(ctx); }

 private:
  void ask(auto& ctx) {
    if (!saves || ctx.sanity_checking()) return;
    ctx.request_checkpoint({this, [](CheckpointFiles& files) {
                              std::string const file = "cut" + std::to_string(cuts.size());
                              files.write(file);
                              cuts.push_back({file, heard.size()});
                            }});
  }
};

/// What is heard of a fit, from its beginning or from a file.
Lines trace(Plan const& plan, std::string const& from = "") {
  auto const lines = heard_of(plan, [&]<class M>(M& model, auto how, auto&& training, auto&& validation) {
    auto trainer = make_trainer<M>(options(plan), toy::Device{}, Float32{}, how, average_of(plan), telling_of<M>(plan),
                                   Saves{.saves = from.empty()});
    trainer.fit(model, training, validation, from.empty() ? std::nullopt : std::optional(CkptPath{from}));
  });
  toy::world.restored = nullptr;
  return lines;
}

/// How many files of a plan do not lead to what the unbroken run heard after them; the first is said.
int wrong_cuts(Plan const& plan, std::string& first) {
  cuts.clear();
  toy::world.files.clear();
  Lines const whole = trace(plan);
  if (!whole.empty() && whole.back().starts_with("Error")) return 0;
  int wrong = 0;
  for (auto const& cut : std::vector<Cut>(cuts)) {
    Lines const rest(whole.begin() + static_cast<std::ptrdiff_t>(cut.heard), whole.end());
    if (rest.empty()) continue;  // the fit had ended
    Lines now = trace(plan, cut.file);
    if (rest.size() == 1)  // training had ended: what opens a fit is heard, and its end
      now.erase(now.begin(), now.end() - 1);
    if (now == rest || wrong++ != 0 || !first.empty()) continue;
    first = shown(plan) + "\n" + cut.file + " after: " + (cut.heard == 0 ? "" : whole[cut.heard - 1]) + "\n" +
            toy::world.files[cut.file].state + "\n" + parting(rest, now);
  }
  return wrong;
}

/// The same of files of a fit that `most` steps end, in one whose steps have no limit. `inside` counts files that were
/// written after an epoch had been cut short.
int wrong_raised(Plan plan, long most, std::string& first, int& inside) {
  plan.stops.clear();
  plan.min_epochs = plan.max_steps = plan.min_steps = std::nullopt;
  if (plan.max_epochs.value_or(-1) < 1) plan.max_epochs = 3;
  Lines const whole = trace(plan);
  if (whole.back().starts_with("Error")) return 0;
  auto limited = plan;
  limited.max_steps = most;
  cuts.clear();
  toy::world.files.clear();
  bool const ends = trace(limited).back() == whole.back();
  int wrong = 0;
  for (auto const& cut : std::vector<Cut>(cuts)) {
    auto const& state = toy::world.files[cut.file].state;
    if (ends && state.find("\"point\":{\"at\":7") != state.npos) continue;  // nothing was left to train
    inside += state.find("\"before_cut\"") == state.npos ? 0 : 1;
    Lines const now = trace(plan, cut.file);
    if (now.size() <= whole.size() && std::equal(now.rbegin(), now.rend(), whole.rbegin())) continue;
    if (wrong++ != 0 || !first.empty()) continue;
    Lines const rest(whole.end() - static_cast<std::ptrdiff_t>(std::min(now.size(), whole.size())), whole.end());
    first = shown(plan) + "\nmax_steps " + std::to_string(most) + ", " + cut.file + "\n" + state + "\n" +
            parting(rest, now);
  }
  return wrong;
}

/// 350 plans, which the number decides.
void check_files_of_plans(unsigned number) {
  Plans random(number);
  std::string first;
  int wrong = 0;
  std::size_t files = 0;
  said([&] {
    for (int i = 0; i != 350; ++i) {
      Plan const plan = random.next();
      wrong += wrong_cuts(plan, first);
      files += cuts.size();
    }
  });
  INFO(wrong << " of " << files << " files lead elsewhere; the first:\n" << first);
  CHECK(wrong == 0);
  CHECK(files > 1000);
}

}  // namespace

// Two cases, since the suite runs in parts beside each other.
TEST_CASE("from each file that a fit of a random plan writes, another one does what was left to do", "[long]") {
  check_files_of_plans(3);
}
TEST_CASE("from each file that a fit of another random plan writes, one does what was left to do", "[long]") {
  check_files_of_plans(4);
}

TEST_CASE("where max_steps has ended a fit of a random plan, one without that limit does from each file what was left",
          "[long]") {
  Plans random(5);
  std::string first;
  int wrong = 0, inside = 0;
  said([&] {
    for (int i = 0; i != 150; ++i) wrong += wrong_raised(random.next(), 1 + i % 9, first, inside);
  });
  INFO(wrong << " files lead elsewhere; the first:\n" << first);
  CHECK(wrong == 0);
  CHECK(inside > 100);
}
