// A fit that is stopped anywhere and gone on with does what the unbroken one still had to do: event by event, gradient
// by gradient, row by row.
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "callback_stderr.hpp"
#include "reference/planned.hpp"
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
    toy::world.restored = [] {
      heard.clear();
      toy::world.restored = nullptr;
    };
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

template <bool Plateau>
void run(Plan const& plan, auto&& loader, std::string const& from) {
  using M = Planned<Plateau>;
  M model;
  model.plan = &plan;
  auto trainer = toy::train<M>(options(plan), Automatic{.accumulate_grad_batches = plan.window(0)},
                               Tells{.plan = &plan}, Saves{.saves = from.empty()});
  auto const go_on = from.empty() ? std::optional<CkptPath>() : CkptPath{from};
  if (plan.validation) trainer.fit(model, loader, toy::batches(static_cast<int>(*plan.validation)), go_on);
  else trainer.fit(model, loader, NoValidation{}, go_on);
}
template <bool Plateau, class B>
void run_on(Plan const& plan, std::vector<B> const& all, std::string const& from) {
  if (plan.sized) run<Plateau>(plan, all, from);
  else if (plan.generated) run<Plateau>(plan, Generated<B>{all}, from);
  else run<Plateau>(plan, WithoutSize<B>{all}, from);
}
template <class B>
void run_with(Plan const& plan, std::string const& from) {
  std::vector<B> all;
  for (long b = 0; b != plan.n; ++b)
    if constexpr (std::is_same_v<B, double>) all.push_back(static_cast<double>(b));
    else all.push_back(plan.none_batch(b) ? B() : B(static_cast<double>(b)));
  if (plan.plateau()) run_on<true, B>(plan, all, from);
  else run_on<false, B>(plan, all, from);
}
/// What is heard of a fit, from its beginning or from a file.
Lines trace(Plan const& plan, std::string const& from = "") {
  heard.clear();
  hearing = false;
  try {
    if (plan.none_batches.empty()) run_with<double>(plan, from);
    else run_with<std::optional<double>>(plan, from);
  } catch (Error const& error) { heard.push_back(std::string("Error ") + error.what()); }
  toy::world.restored = nullptr;
  return heard;
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
    if (rest.empty()) continue;                             // the fit had ended
    if (rest.size() == 1 && !plan.stops.empty()) continue;  // training was stopped and had ended: it may go on now
    Lines now = trace(plan, cut.file);
    if (rest.size() == 1)  // training had ended: what opens a fit is heard, and its end
      now.erase(now.begin(), now.end() - 1);
    if (now == rest || wrong++ != 0 || !first.empty()) continue;
    first = shown(plan) + "\n" + cut.file + " after: " + (cut.heard == 0 ? "" : whole[cut.heard - 1]) + "\n" +
            toy::world.files[cut.file].state + "\n" + parting(rest, now);
  }
  return wrong;
}

}  // namespace

TEST_CASE("from each file that a fit of a random plan writes, another one does what was left to do") {
  Plans random(3);
  std::string first;
  int wrong = 0;
  std::size_t files = 0;
  said([&] {
    for (int i = 0; i != 1000; ++i) {
      Plan const plan = random.next();
      wrong += wrong_cuts(plan, first);
      files += cuts.size();
    }
  });
  INFO(wrong << " of " << files << " files lead elsewhere; the first:\n" << first);
  CHECK(wrong == 0);
  CHECK(files > 2000);
}
