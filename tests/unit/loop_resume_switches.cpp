// What hooks have frozen, made trainable, or switched to eval mode is the state of a run: files and snapshots hold it
// where it differs from what the program had chosen when the fit began, and nothing else does.

#include <catch2/catch_test_macros.hpp>

#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/callback/model_checkpoint.hpp>
#include <fulgurite/tuner/learning_rate_finder.hpp>

#include "callback_run.hpp"
#include "loop_resume_named.hpp"
#include "models.hpp"
#include "ranks.hpp"

using namespace fulgurite;
using resumed::entry;
using resumed::named;
using toy::Tensor;

namespace {

using Path = std::filesystem::path;

/// The gradient of each of three weights depends on the others, and on the mean of a norm.
struct Net {
  Tensor a = Tensor::parameter(0.5), b = Tensor::parameter(0.25), c = Tensor::parameter(0.75);
  toy::Norm norm{};
  bool training = true;
  std::string first_name = "a";
  bool filters = false;  ///< its optimizer has the weights that are not frozen

  std::vector<Tensor> parameters() const { return {a, b, c}; }
  std::vector<std::pair<std::string, Tensor>> named_parameters() const { return {{first_name, a}, {"b", b}, {"c", c}}; }
  Tensor training_step(double batch, auto&) {
    norm.see(batch);
    return a * b * c * Tensor(0.25 + norm.mean / 16);
  }
  void test_step(double) {}
  toy::Sgd configure_optimizers() {
    auto params = parameters();
    if (filters) std::erase_if(params, [](Tensor const& p) { return !p.requires_grad(); });
    return {.params = params, .rate = 0.125, .momentum = 0.5};
  }
  void state(auto& archive) { archive("mean", norm.mean)("seen", norm.seen); }

  /// What is switched off.
  std::string off() const {
    std::string all;
    for (auto const& [name, p] : named_parameters())
      if (!p.requires_grad()) all += name;
    return all + (norm.training ? "" : " norm") + (training ? "" : " net");
  }
  std::vector<double> numbers() const { return {a.value(), b.value(), c.value(), norm.mean}; }
};

struct Validated : Net {
  void validation_step(double) {}
};

/// What hooks do: they are called with the net, the name of the place, the steps so far, and what saves a file at once.
using Save = std::function<void(Path const&)>;
using Act = std::function<void(Net&, std::string_view where, long step, Save const&)>;
struct Acts {
  using Stateless = ByChoice;
  Act act;
  Save save = nullptr;
  Path rescue = {};  ///< the file of an exception
  void at(std::string_view where, auto& ctx) { act(ctx.model(), where, ctx.global_step(), save); }
  void on_fit_start(auto& ctx) { at("fit start", ctx); }
  void on_train_start(auto& ctx) { at("train start", ctx); }
  void on_train_batch_start(auto& ctx) { at("batch", ctx); }
  void on_before_backward(auto& ctx) { at("backward", ctx); }
  void on_train_batch_end(auto& ctx) { at("batch end", ctx); }
  void on_train_epoch_end(auto& ctx) { at("epoch end", ctx); }
  void on_validation_batch_end(auto& ctx) { at(ctx.sanity_checking() ? "sanity" : "validation", ctx); }
  void on_validation_end(auto& ctx) {
    if (!ctx.sanity_checking()) at("validation end", ctx);
  }
  void on_test_batch_end(auto& ctx) { at("test", ctx); }
  void on_exception(auto& ctx) {
    if (!rescue.empty()) ctx.request_checkpoint(rescue);
  }
};

template <class N, class How>
using TrainerOf = Trainer<N, SavingDevice, Float32, How, Acts>;
template <class N = Net, class How = Automatic>
struct Trains : TrainerOf<N, How> {
  Trains(int epochs, Act act, TrainerOptions options = quick(0))
      : TrainerOf<N, How>((options.max_epochs = epochs, options), SavingDevice{}, Float32{}, How{},
                          Acts{std::move(act), [this](Path const& file) { this->save_checkpoint(file); }}) {}
};
auto const four = toy::batches(4);
std::optional<CkptPath> const anew = std::nullopt;
std::optional<CkptPath> from(Path const& file) { return CkptPath{file}; }

/// Freezes a weight and the norm in the second epoch, thaws the weight in the third.
void hooks_switch(Net& net, std::string_view where, long step) {
  if (where != "batch") return;
  if (step == 5) net.a.set_requires_grad(false);
  if (step == 6) net.norm.training = false;
  if (step == 10) net.a.set_requires_grad(true);
}
void does_nothing(Net&, std::string_view, long, Save const&) {}

}  // namespace

TEST_CASE("switches: a fit resumes from each file with what hooks had switched, and leaves the same files", "[long]") {
  Folder const folder;
  auto const file = [&](std::string const& run, long step) { return folder / (run + std::to_string(step)); };
  auto const acts = [&](std::string const& run) {
    return [&, run](Net& net, std::string_view where, long step, Save const& save) {
      hooks_switch(net, where, step);
      if (where == "train start") net.b.set_requires_grad(false);  // the program's own, until a hook changes it
      if (where == "batch" && step == 9) net.b.set_requires_grad(true);
      if (where == "batch end") save(file(run, step));
    };
  };
  Net whole;
  Trains<>(3, acts("whole")).fit(whole, four, anew);
  CHECK(whole.off() == " norm");
  CHECK(named(file("whole", 5)).empty());
  CHECK(named(file("whole", 6)) == "off: a on:");
  CHECK(named(file("whole", 7)) == "off: a norm on:");
  CHECK(named(file("whole", 10)) == "off: a norm on: b");
  CHECK(named(file("whole", 11)) == "off: norm on: b");
  for (long step = 1; step != 12; ++step) {
    CAPTURE(step);
    Net net;
    Trains<>(3, acts("again")).fit(net, four, from(file("whole", step)));
    CHECK(net.numbers() == whole.numbers());
    CHECK(net.off() == whole.off());
    for (long later = step + 1; later != 13; ++later) {
      CHECK(content(file("again", later)) == content(file("whole", later)));
      if (later == 12) continue;
      Net last;
      Trains<>(3, acts("last")).fit(last, four, from(file("again", later)));
      CHECK(last.numbers() == whole.numbers());
    }
  }
}

TEST_CASE("switches: what the program has frozen is the program's, unless a hook has switched it since") {
  Folder const folder;
  auto const saves = [&](Net& net, std::string_view where, long step, Save const& save) {
    hooks_switch(net, where, step);
    if (where == "batch end" && step == 8) save(folder / "file");
  };
  Net net;
  net.c.set_requires_grad(false);
  Trains<>(2, saves).fit(net, four, anew);
  CHECK(named(folder / "file") == "off: a norm on:");

  Net thawed, other;
  Trains<>(3, does_nothing).fit(thawed, four, from(folder / "file"));
  CHECK(thawed.off() == "a norm");
  other.b.set_requires_grad(false);
  Trains<>(3, does_nothing).fit(other, four, from(folder / "file"));
  CHECK(other.off() == "ab norm");

  // What this program freezes itself is its choice, and that a hook thaws it is named.
  Net both;
  both.a.set_requires_grad(false);
  Trains<>(3, [&](Net& it, std::string_view where, long step, Save const& save) {
    hooks_switch(it, where, step);
    if (where == "batch end" && step >= 9) save(folder / std::to_string(step));
  }).fit(both, four, from(folder / "file"));
  CHECK(named(folder / "9") == "off: norm on:");
  CHECK(named(folder / "11") == "off: norm on: a");

  // Nothing is written of a run whose hooks switch nothing.
  Net quiet;
  quiet.a.set_requires_grad(false);
  Trains<> trainer(1, [](Net& it, std::string_view where, long, Save const&) {
    if (where == "train start") it.b.set_requires_grad(false);
  });
  trainer.fit(quiet, four, anew);
  trainer.save_checkpoint(folder / "quiet");
  CHECK(entry(folder / "quiet") == nullptr);
  Net same;  // as is nothing of files from before they held this
  Trains<>(2, [](Net& it, std::string_view where, long, Save const&) {
    if (where == "train start") it.c.set_requires_grad(false);
  }).fit(same, four, from(folder / "quiet"));
  CHECK(same.off() == "c");
}

TEST_CASE("switches: a program's choice stays, whichever files its process resumes from") {
  Folder const folder;
  auto const writes = [&](std::string const& name, bool frozen, std::optional<bool> hook_sets) {
    Net net;
    net.a.set_requires_grad(!frozen);
    Trains<> trainer(1, [&](Net& it, std::string_view where, long step, Save const&) {
      if (hook_sets && where == "batch" && step == 1) it.a.set_requires_grad(*hook_sets);
    });
    trainer.fit(net, four, anew);
    trainer.save_checkpoint(folder / name);
  };
  writes("none", false, {});
  writes("off", false, false);
  writes("on", true, true);
  CHECK(named(folder / "off") == "off: a on:");
  CHECK(named(folder / "on") == "off: on: a");
  for (bool const frozen : {true, false}) {
    CAPTURE(frozen);
    Net net;
    net.a.set_requires_grad(!frozen);
    std::vector<bool> trained;
    Trains<> trainer(2, [&](Net& it, std::string_view where, long step, Save const&) {
      if (where == "batch") trained.push_back(it.a.requires_grad());
      if (where == "batch" && step == 5 && trained.size() < 4) it.a.set_requires_grad(frozen);
    });
    trainer.fit(net, four, from(folder / (frozen ? "off" : "on")));
    CHECK(trained == std::vector{!frozen, !frozen, frozen, frozen});
    trained.clear(), trained.resize(4);
    trainer.fit(net, four, from(folder / "none"));
    CHECK(trained == std::vector{false, false, false, false, !frozen, !frozen, !frozen, !frozen});
    trainer.save_checkpoint(folder / "after");
    CHECK(entry(folder / "after") == nullptr);
  }

  // A model at the address of another one.
  Trains<> trainer(2, [](Net& it, std::string_view where, long step, Save const&) {
    if (where == "batch" && step == 5 && it.b.requires_grad()) it.a.set_requires_grad(false);
  });
  std::optional<Net> net;
  for (bool const frozen : {false, true}) {
    net.emplace();
    if (frozen) net->a.set_requires_grad(false), net->b.set_requires_grad(false);
    trainer.fit(*net, four, from(folder / "none"));
    CHECK(net->off() == (frozen ? "ab" : "a"));
    trainer.save_checkpoint(folder / "after");
    CHECK(named(folder / "after") == (frozen ? "" : "off: a on:"));
  }
}

TEST_CASE("switches: names of a file may be in any order, and be unknown to the model") {
  StateMemory memory;
  Switches names;
  names.parameters = {"b", "a", "b"};
  names.modules = {"y", "x"};
  memory.save([&](auto& archive) { archive.child("names", names); });
  memory.load([&](auto& archive) { archive.child("names", names); });
  CHECK(names.parameters == std::vector<std::string>{"a", "b"});
  CHECK(names.modules == std::vector<std::string>{"x", "y"});

  Folder const folder;
  Net net;
  net.a.set_requires_grad(false);
  Trains<> trainer(1, [](Net& it, std::string_view where, long step, Save const&) {
    if (where == "batch" && step == 1) it.a.set_requires_grad(true), it.b.set_requires_grad(false);
  });
  trainer.fit(net, four, anew);
  trainer.save_checkpoint(folder / "file");
  CHECK(named(folder / "file") == "off: b on: a");
  Net other{.first_name = "x"};
  Trains<> further(2, does_nothing);
  further.fit(other, four, from(folder / "file"));
  further.save_checkpoint(folder / "other");
  CHECK(named(folder / "other") == "off: b on:");
}

TEST_CASE("switches: a file that is written before training began names nothing that the program has frozen") {
  Folder const folder;
  for (std::string const where : {"fit start", "train start"}) {
    CAPTURE(where);
    Net first, second;
    first.b.set_requires_grad(false);
    Trains<> trainer(1, [&](Net& net, std::string_view now, long, Save const& save) {
      if (now == where) net.norm.training = false, save(folder / "file");
    });
    trainer.fit(first, four, anew);
    CHECK(named(folder / "file") == "");
    second.c.set_requires_grad(false);
    trainer.fit(second, four, anew);
    CHECK(named(folder / "file") == "");

    bool fails = true;
    auto failing = make_trainer<Net>(quick(1), SavingDevice{}, Float32{}, Automatic{},
                                     Acts{[&](Net& net, std::string_view now, long, Save const&) {
                                            if (now != where || !fails) return;
                                            net.norm.training = false;
                                            throw std::runtime_error("a hook failed");
                                          },
                                          nullptr, folder / "failed"});
    Net third;
    third.a.set_requires_grad(false);
    CHECK_THROWS_AS(failing.fit(third, four, anew), std::runtime_error);
    CHECK(named(folder / "failed") == "");
    fails = false;
    failing.fit(third, four, anew);
    failing.save_checkpoint(folder / "after");
    CHECK(named(folder / "after") == "");
  }
}

TEST_CASE("switches: a snapshot that is restored inside of a test gives its modes when the test has ended") {
  Net net;
  std::optional<decltype(snapshot(std::declval<Trains<>&>()))> kept;
  std::string in_test;
  Trains<> trainer(1, [&](Net& it, std::string_view where, long step, Save const&) {
    if (where == "batch" && step == 1) it.a.set_requires_grad(false), it.norm.training = it.training = false;
    if (where != "test") return;
    restore(trainer, *kept);
    in_test = it.off();
  });
  trainer.fit(net, four, anew);
  kept = snapshot(trainer);
  net.a.set_requires_grad(true);
  net.norm.training = net.training = true;
  trainer.test(net, toy::batches(1));
  CHECK(in_test == "a net");
  CHECK(net.off() == "a norm net");
  net.training = true;
  trainer.fit(net, four, anew);
  Folder const folder;
  trainer.save_checkpoint(folder / "after");
  CHECK(named(folder / "after") == "off: a norm on:");
}

TEST_CASE("switches: a file that is written in an evaluation holds the modes from before it") {
  Folder const folder;
  auto const acts = [&](std::string_view saves, std::string const& name) {
    return [&, saves, name](Net& net, std::string_view where, long step, Save const& save) {
      hooks_switch(net, where, step);
      if (where == "validation" && step == 8) net.b.set_requires_grad(!net.b.requires_grad());
      if (where == saves && (step == 8 || where == "sanity")) save(folder / name);
    };
  };
  auto const one = toy::batches(1);
  Validated whole;
  Trains<Validated>(3, acts("", "")).fit(whole, four, one, anew);
  REQUIRE(whole.off() == "b norm");
  for (std::string const where : {"validation", "validation end"}) {
    CAPTURE(where);
    Validated net, again;
    Trains<Validated> trainer(2, acts(where, where));
    trainer.fit(net, four, one, anew);
    CHECK(named(folder / where) == "off: a norm on:");  // the validation is done again
    Trains<Validated>(3, acts("", "")).fit(again, four, one, from(folder / where));
    CHECK(again.off() == "b norm");
    CHECK(again.numbers() == whole.numbers());
    trainer.save_checkpoint(folder / "after");
    CHECK(named(folder / "after") == "off: a b norm on:");

    Trains<Validated> tests(2, acts("test", "test"));
    tests.fit(net, four, NoValidation{}, anew);  // of another run
    tests.test(net, one);
    CHECK(named(folder / "test").empty());
    CHECK(net.off() == "ab norm");
  }
  Net tested;
  std::string in_test;
  Trains<> trainer(2, [&](Net& net, std::string_view where, long step, Save const& save) {
    hooks_switch(net, where, step);
    if (where == "test") in_test = net.off(), save(folder / "tested");
  });
  trainer.fit(tested, four, anew);
  trainer.test(tested, one);
  CHECK(in_test == "a norm net");
  CHECK(named(folder / "tested") == "off: a norm on:");
  Net third;  // of which the run's file knows nothing
  third.norm.training = false;
  tested.norm.training = true;
  trainer.test(third, one);
  CHECK(in_test == " norm net");
  CHECK(named(folder / "tested") == "off: a on:");

  // What a hook of a sanity check freezes is no choice of the program.
  auto options = quick(2);
  options.num_sanity_val_steps = 1;
  auto const checked = [&](Net& net, std::string_view where, long step, Save const& save) {
    if (where == "sanity") net.c.set_requires_grad(false), save(folder / "sanity");
    if (where == "batch end" && step == 6) save(folder / "inside");
  };
  Validated sane, again;
  Trains<Validated>(2, checked, options).fit(sane, four, one, anew);
  CHECK(named(folder / "sanity") == "off: c on:");
  CHECK(named(folder / "inside") == "off: c on:");
  Trains<Validated>(2, checked, options).fit(again, four, one, from(folder / "inside"));
  CHECK(again.numbers() == sane.numbers());
}

TEST_CASE("switches: what a failing validation or hook leaves behind is what it began with") {
  Folder const folder;
  auto const one = toy::batches(1);
  auto const acts = [&](Net& net, std::string_view where, long step, Save const&) {
    if (where == "validation" && step == 4) {
      net.b.set_requires_grad(false);
      throw std::runtime_error("a validation failed");
    }
  };
  auto trainer =
      make_trainer<Validated>(quick(2), SavingDevice{}, Float32{}, Automatic{}, Acts{acts, nullptr, folder / "failed"});
  Validated net;
  CHECK_THROWS_AS(trainer.fit(net, four, one, anew), std::runtime_error);
  CHECK(net.off() == "b");
  CHECK(entry(folder / "failed") == nullptr);
}

namespace {
/// A model that drives two optimizers, one at a time.
struct Turns : Validated {
  auto configure_optimizers() {
    return optimizers(toy::Sgd{.params = {a, b}, .rate = 0.125}, toy::Sgd{.params = {c}, .rate = 0.125});
  }
  void training_step(double batch, auto& ctx) {
    auto& [first, second] = ctx.optimizers();
    norm.see(batch);
    auto const loss = [&] { return a * b * c * Tensor(0.25 + norm.mean / 16); };
    first.zero_grad(), second.zero_grad();
    {
      auto const only = ctx.toggle(first);
      auto const nested = ctx.toggle(second);
      ctx.backward(loss());
    }
    ctx.minimize(first, loss());
    ctx.minimize(second, loss());
  }
};
}  // namespace

TEST_CASE("switches: under manual optimization a file inside a batch knows what a toggle will give back") {
  Folder const folder;
  int saved = 0;
  std::vector<std::string> seen;
  auto const acts = [&](Net& net, std::string_view where, long step, Save const& save) {
    if (where == "batch" && step == 6) net.a.set_requires_grad(false);  // the first in the second batch, with c toggled
    if (where == "batch" && step == 6) net.norm.training = false;
    if (where == "backward" && step < 9 && step > 5) seen.push_back(net.off()), save(folder / std::to_string(saved++));
    if (where == "validation" && step == 8) save(folder / "validation");
  };
  Turns whole;
  Trains<Turns, Manual>(3, [&](Net& net, auto where, long step, Save const&) {
    if (where == "batch" && step == 6) net.a.set_requires_grad(false), net.norm.training = false;
  }).fit(whole, four, toy::batches(1), anew);
  Turns net;
  Trains<Turns, Manual>(2, acts).fit(net, four, toy::batches(1), anew);
  REQUIRE(saved > 2);
  CHECK(seen[0] == "abc norm");
  CHECK(seen[1] == "ac norm");
  for (int file = 0; file != saved; ++file) {
    CAPTURE(file);
    CHECK(named(folder / std::to_string(file)) == "off: a norm on:");
  }
  CHECK(named(folder / "validation") == "off: a norm on:");
  Turns again;
  Trains<Turns, Manual>(3, [](Net&, auto, long, Save const&) {
  }).fit(again, four, toy::batches(1), from(folder / "validation"));
  CHECK(again.numbers() == whole.numbers());
  CHECK(again.off() == whole.off());
}

TEST_CASE("switches: a second fit of a model saves what hooks of the first had switched") {
  Folder const folder;
  auto const acts = [&](Net& net, std::string_view where, long step, Save const& save) {
    hooks_switch(net, where, step);
    if (where == "batch end" && step == 9) save(folder / "9");
  };
  Net whole, net, again;
  Trains<>(3, acts).fit(whole, four, anew);
  Trains<> trainer(2, acts);
  net.b.set_requires_grad(false);
  trainer.fit(net, four, anew);
  net.b.set_requires_grad(true);  // between the fits: the program's
  net.c.set_requires_grad(false);
  auto options = trainer.given_options();
  options.max_epochs = 3;
  trainer.set_options(options);
  trainer.fit(net, four, anew);
  CHECK(named(folder / "9") == "off: a norm on:");
  Trains<>(3, acts).fit(again, four, from(folder / "9"));
  CHECK(again.off() == " norm");

  // A fit that resumes in the same process from an earlier file: what later hooks had switched is undone.
  Net back;
  Trains<> once(3, [&](Net& it, std::string_view where, long step, Save const& save) {
    if (where == "batch end" && step == 3) save(folder / "3");
    hooks_switch(it, where, step);
  });
  once.fit(back, four, anew);
  std::vector<std::string> off;
  bool fails = true;
  Trains<> twice(3, [&](Net& it, std::string_view where, long step, Save const&) {
    if (where == "batch" || where == "train start") off.push_back(it.off());
    hooks_switch(it, where, step);
    if (step == 7 && fails) throw std::runtime_error("a hook failed");
  });
  Net failing;
  CHECK_THROWS_AS(twice.fit(failing, four, anew), std::runtime_error);
  CHECK(failing.off() == "a norm");
  off.clear();
  fails = false;
  twice.fit(failing, four, from(folder / "3"));
  CHECK(off[0] == "");
  CHECK(off[1] == "");
  CHECK(failing.numbers() == back.numbers());
}

TEST_CASE(
    "switches: a finished run that is started again has them, and its files; a file that does not fit leaves none") {
  Folder const folder;
  auto const acts = [&](Net& net, std::string_view where, long step, Save const&) {
    if (where == "train start") net.b.set_requires_grad(false);
    if (where == "batch" && step == 7) net.b.set_requires_grad(true);
    hooks_switch(net, where, step);
  };
  Net whole, net, started, further;
  Trains<>(3, acts).fit(whole, four, anew);
  Trains<> trainer(2, acts);
  trainer.fit(net, four, anew);
  trainer.save_checkpoint(folder / "ended");
  Trains<> again(2, acts);
  again.fit(started, four, from(folder / "ended"));
  CHECK(started.off() == net.off());
  again.save_checkpoint(folder / "again");
  CHECK(named(folder / "again") == "off: a norm on: b");
  Trains<>(3, acts).fit(further, four, from(folder / "again"));
  CHECK(further.numbers() == whole.numbers());

  // The loader ends before the place of the file, which shows last of all.
  Trains<>(2, [&](Net& it, std::string_view where, long step, Save const& save) {
    acts(it, where, step, save);
    if (where == "batch end" && step == 7) save(folder / "inside");
  }).fit(*std::make_unique<Net>(), toy::Unsized(4), anew);
  Net short_of;
  short_of.a.set_requires_grad(false);
  short_of.c.set_requires_grad(false);
  Trains<> fails(2, acts);
  CHECK(toy::refusal([&] { fails.fit(short_of, toy::Unsized(2), from(folder / "inside")); }) != "");
  CHECK(short_of.off() == "ac");
  fails.save_checkpoint(folder / "failed");
  CHECK(entry(folder / "failed") == nullptr);
  fails.fit(short_of, toy::Unsized(4), from(folder / "inside"));  // c is the program's still
  CHECK(short_of.off() == "ac norm");
}

TEST_CASE("switches: a resumed fit makes its optimizers of the parameters that the file's were made of") {
  Folder const folder;
  auto const acts = [&](Net& net, std::string_view where, long step, Save const& save) {
    if (where == "batch" && step == 1) net.a.set_requires_grad(false);
    if (where == "batch" && step == 6) net.b.set_requires_grad(false);
    if (where == "batch end" && step >= 7) save(folder / std::to_string(step));
  };
  Net net{.filters = true};
  Trains<> trainer(1, acts);
  trainer.fit(net, four, anew);
  auto options = trainer.given_options();
  options.max_epochs = 3;
  trainer.set_options(options);
  trainer.fit(net, four, anew);
  auto const numbers = net.numbers();
  auto const last = content(folder / "11");
  for (std::string const file : {"7", "10"}) {
    CAPTURE(file);
    trainer.fit(net, four, from(folder / file));
    CHECK(net.numbers() == numbers);
    CHECK(content(folder / "11") == last);
    Net fresh{.filters = true};
    Trains<>(3, acts).fit(fresh, four, from(folder / file));
    CHECK(fresh.numbers() == numbers);
    CHECK(fresh.off() == "ab");
    CHECK(content(folder / "11") == last);
  }
}

namespace {
struct Freezes : Net {
  double lr = 0.125;
  long steps = 0;
  void on_before_optimizer_step(auto&) {
    ++steps;
    a.set_requires_grad(false), norm.training = false;
  }
};
}  // namespace

TEST_CASE("switches: weights alone, evaluations and trial runs leave them; a snapshot brings all of them back") {
  Folder const folder;
  auto const acts = [&](Net& net, std::string_view where, long step, Save const&) { hooks_switch(net, where, step); };
  Net net, other;
  Trains<> trainer(2, acts);
  trainer.fit(net, four, anew);
  trainer.save_checkpoint(folder / "file");
  auto const kept = snapshot(trainer);
  Trains<> tests(1, does_nothing);
  std::optional<decltype(snapshot(trainer))> in_test;
  Trains<> keeps(1, [&](Net&, std::string_view where, long, Save const&) {
    if (where == "test") in_test = snapshot(keeps);
  });
  keeps.fit(other, four, anew);
  other.b.set_requires_grad(false);
  keeps.test(other, toy::batches(1));
  other.b.set_requires_grad(true);
  restore(keeps, *in_test);
  CHECK(other.off() == "b");
  other.b.set_requires_grad(true);
  tests.test(other, toy::batches(1), CkptPath{folder / "file"});
  CHECK(other.off() == "");
  tests.test(other, toy::batches(1), kept);
  CHECK(other.off() == "");
  auto saves = make_trainer<Net>(quick(2), SavingDevice{}, Float32{}, Automatic{}, Acts{acts},
                                 ModelCheckpoint{{.dirpath = folder / "alone", .save_weights_only = true}});
  Net alone;
  saves.fit(alone, four, anew);
  CHECK(alone.off() == "a norm");
  auto const& best = saves.callback<ModelCheckpoint<>>().best_model_path();
  CHECK(entry(best) == nullptr);
  other.c.set_requires_grad(false);
  for (Path const& file : {Path(best), folder / "file"}) {
    SavingBackend::RunFile(file).load_weights(other);
    CHECK(other.a.value() == alone.a.value());
    tests.test(other, toy::batches(1), CkptPath{file});
    CHECK(other.off() == "c");
  }
  other.c.set_requires_grad(true);

  net.a.set_requires_grad(true);
  net.b.set_requires_grad(false);
  net.norm.training = true;
  trainer.save_checkpoint(folder / "between");
  CHECK(entry(folder / "between") == nullptr);
  auto options = trainer.given_options();
  options.max_epochs = 3;
  trainer.set_options(options);
  trainer.fit(net, four, anew);
  restore(trainer, kept);
  CHECK(net.off() == "a norm");
  Net unbroken;
  Trains<>(3, acts).fit(unbroken, four, anew);
  trainer.fit(net, four, kept);
  CHECK(net.numbers() == unbroken.numbers());
  trainer.save_checkpoint(folder / "later");
  CHECK(named(folder / "later") == "off: norm on:");

  Freezes tried;
  Trains<Freezes> searches(1, does_nothing);
  tune::lr_find(searches, tried, four, {.num_training = 12, .early_stop_threshold = std::nullopt});
  CHECK(tried.steps == 4);
  CHECK(tried.off() == "");
}

TEST_CASE("switches: what a hook of a cut epoch's end has frozen is not frozen inside of the epoch") {
  Folder const folder;
  auto const acts = [&](Net& net, std::string_view where, long, Save const&) {
    if (where == "epoch end") net.a.set_requires_grad(!net.a.requires_grad());
  };
  auto const limited = [&](std::optional<long> steps) {
    auto options = quick(3);
    options.max_steps = steps;
    return options;
  };
  Net whole, cut, again;
  Trains<>(3, acts, limited({})).fit(whole, four, anew);
  Trains<> trainer(3, acts, limited(6));
  trainer.fit(cut, four, anew);
  CHECK(cut.off() == "");
  trainer.save_checkpoint(folder / "cut");
  Trains<>(3, acts, limited({})).fit(again, four, from(folder / "cut"));
  CHECK(again.numbers() == whole.numbers());
  CHECK(again.off() == whole.off());
}
