// A fit that goes on: what does not fit is told before training starts and changes nothing; what was interrupted in
// between two files, by a failing validation or inside a window is done again.
#include <catch2/catch_test_macros.hpp>

#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fulgurite/callback/early_stopping.hpp>
#include <fulgurite/callback/model_checkpoint.hpp>
#include <fulgurite/callback/signals.hpp>
#include <fulgurite/schedule/schedule.hpp>

#include "callback_run.hpp"
#include "callback_stderr.hpp"
#include "models.hpp"

using namespace fulgurite;

namespace {

template <class... Cs>
auto trainer_of(int epochs, Cs... callbacks) {
  return make_trainer<Scripted>(quick(epochs), SavingDevice{}, Float32{}, Automatic{}, std::move(callbacks)...);
}
using From = std::optional<CkptPath>;

/// Counts what begins, and keeps something in the file; where it has a folder, it asks for a file after each batch.
struct Begins {
  Folder const* folder = nullptr;
  int epochs = 0, fits = 0, trainings = 0;
  long kept = 1;
  void on_fit_start() { ++fits; }
  void on_train_start() { ++trainings; }
  void on_train_epoch_start() { ++epochs; }
  void on_train_batch_end(auto& ctx) {
    kept = 7;
    if (folder != nullptr) ctx.request_checkpoint(*folder / (std::to_string(ctx.global_step()) + ".safetensors"));
  }
  void state(auto& archive) { archive("kept", kept); }
};

/// Another optimizer than toy::Sgd, with another state.
struct OtherSgd : toy::Sgd {
  static constexpr std::string_view name() { return "OtherSgd"; }
};
struct OtherOptimizer : Scripted {
  double kept = 1;
  void state(auto& archive) { archive("kept", kept); }
  auto configure_optimizers() { return scheduled(OtherSgd{{{p}}}, schedule::Step{2, 0.5}); }
};
/// One that cannot tell how far it is.
struct Forgetful {
  static constexpr bool needs_closure = false, stable_gradients = true;
  static constexpr std::string_view name() { return "Forgetful"; }
  std::vector<toy::Tensor> params;
  void zero_grad() {}
  void step() {}
  double lr(std::size_t) const { return 1; }
  void set_lr(std::size_t, double) {}
  std::size_t groups() const { return 1; }
  std::vector<toy::Tensor> const& parameters() const { return params; }
};
struct OfForgetful : Scripted {
  std::filesystem::path file = {};  ///< asked for after each batch
  Forgetful configure_optimizers() { return {{p}}; }
  void on_train_batch_end(auto& ctx) {
    if (!file.empty()) ctx.request_checkpoint(file.string());
  }
};

/// Two optimizers, one of which has a schedule: the first or the second.
template <bool First>
struct TwoRates : Scripted {
  toy::Tensor q = toy::Tensor::parameter(1.0);
  void training_step(double, auto&) {}
  auto configure_optimizers() {
    toy::Sgd one{.params = {p}, .rate = 0.125}, two{.params = {q}, .rate = 0.5};
    if constexpr (First) return optimizers(scheduled(one, schedule::Step{2, 0.5}), two);
    else return optimizers(one, scheduled(two, schedule::Step{2, 0.5}));
  }
};
/// A user's optimizer whose state is saved, and that has no name.
struct Nameless {
  static constexpr bool needs_closure = false, stable_gradients = true;
  std::vector<toy::Tensor> params;
  double rate = 0.25, sum = 0;
  void zero_grad() {
    for (auto& one : params) one.clear_grad();
  }
  void step() {
    for (auto& one : params) one.set(one.value() - rate * (sum += one.grad()));
  }
  double lr(std::size_t) const { return rate; }
  void set_lr(std::size_t, double to) { rate = to; }
  std::size_t groups() const { return 1; }
  std::vector<toy::Tensor> const& parameters() const { return params; }
  void state(auto& archive) { archive("rate", rate)("sum", sum); }
};
struct OfNameless : Scripted {
  Nameless configure_optimizers() { return {{p}}; }
};

/// A trainer has one callback of a type.
struct Second : ModelCheckpoint<NoMonitor> {
  using ModelCheckpoint<NoMonitor>::ModelCheckpoint;
};
struct OwnOptimizer : Scripted {
  OtherSgd configure_optimizers() { return {{{p}}}; }
};
struct Sloped : toy::Slope {
  double fails_at = -1;
  toy::Tensor training_step(double batch) {
    if (batch == fails_at) throw std::runtime_error("batch");
    return toy::Slope::training_step(batch);
  }
};

/// It does not say where it is, or that this is meant.
struct Unsaid {
  int n;
  auto begin() const { return toy::Unsized(n).begin(); }
  auto end() const { return toy::Unsized(n).end(); }
};
struct ByChoiceSo : Unsaid {
  using Stateless = ByChoice;
};

/// A file at the end of epoch 0.
std::string file_in(Folder const& folder) {
  Scripted model;
  fitted(model, quick(1), 2, ModelCheckpoint{{.dirpath = folder.path, .filename = "x"}});
  return folder / "x.safetensors";
}
template <class M>
std::string error_from(M& model, std::string const& file) {
  auto trainer = make_trainer<M>(quick(2), SavingDevice{}, Float32{}, Automatic{}, Begins{});
  return error_of([&] { trainer.fit(model, toy::batches(2), toy::batches(1), From(CkptPath{file})); });
}

}  // namespace

TEST_CASE("resume: a file that does not fit is refused with all that does not, and changes nothing") {
  Folder const folder;
  auto const file = file_in(folder);
  OtherOptimizer model;
  model.p.set(42);
  auto const said_of = error_from(model, file);
  CHECK(said_of.starts_with("[fulgurite.checkpoint.state_entry] "));
  CHECK(said_of.find("'model' is not in the saved state") != std::string::npos);
  CHECK(model.p.value() == 42);
  CHECK(model.kept == 1);
  CHECK(model.batches == 0);

  OwnOptimizer bare;
  bare.p.set(42);
  auto const of_optimizer = error_from(bare, file);
  CHECK(of_optimizer.find("'optimizers.0 OtherSgd' is not in the saved state") != std::string::npos);
  CHECK(bare.p.value() == 42);  // though its weights had been loaded by then
  CHECK(bare.batches == 0);
}

namespace {
/// One callback, before and after it was written anew, with another entry.
namespace before {
struct Counting {
  long counted = 1;
  void on_train_end() {}
  void state(auto& archive) { archive("counted", counted); }
};
}  // namespace before
namespace after {
struct Counting {
  std::string name = "none";
  void on_train_end() {}
  void state(auto& archive) { archive("named", name); }
};
}  // namespace after
}  // namespace

TEST_CASE("resume: what does not fit the weights, the model, the callbacks and the optimizers is told at once") {
  Folder const folder;
  Scripted model;
  auto first = trainer_of(1, before::Counting{});
  first.fit(model, toy::batches(2), toy::batches(1));
  first.save_checkpoint(folder / "x.safetensors");
  OtherOptimizer other;
  other.p.set(42);
  auto then = make_trainer<OtherOptimizer>(quick(2), SavingDevice{}, Float32{}, Automatic{}, after::Counting{});
  std::string error;
  said([&] {
    error = error_of([&] { then.fit(other, toy::batches(2), toy::batches(1), CkptPath{folder / "x.safetensors"}); });
  });
  CHECK(error.starts_with("[fulgurite.checkpoint.state_entry] "));
  for (auto const* part : {"'model'", "'callbacks.Counting.named'", "'optimizers.0 OtherSgd'", "'schedulers.0'"}) {
    CAPTURE(part, error);
    CHECK(error.find(std::string(part) + " is not in the saved state") != std::string::npos);
  }
  CHECK(error.find("schedules: 0 Step is new") != std::string::npos);
  CHECK(other.p.value() == 42);
  CHECK(other.kept == 1);
  CHECK(other.batches == 0);
}

TEST_CASE("resume: a schedule of another kind is refused by name, though it keeps the same numbers") {
  struct Halves : Scripted {
    auto configure_optimizers() { return scheduled(Scripted::configure_optimizers(), schedule::Step{2, 0.5}); }
  };
  struct Decays : Scripted {
    auto configure_optimizers() { return scheduled(Scripted::configure_optimizers(), schedule::Exponential{0.5}); }
  };
  struct InPlace : Scripted {
    auto configure_optimizers() {
      return scheduled(Scripted::configure_optimizers(),
                       [](long moves) { return 1.0 / static_cast<double>(moves + 1); });
    }
  };
  Folder const folder;
  auto const file = folder / "x.safetensors";
  auto const fit = [&]<class M>(std::type_identity<M>, int epochs, From const& from) {
    M model;
    auto trainer = make_trainer<M>(quick(epochs), SavingDevice{}, Float32{}, Automatic{});
    return error_of([&] {
      trainer.fit(model, toy::batches(2), toy::batches(1), from);
      trainer.save_checkpoint(file);
    });
  };
  CHECK(fit(std::type_identity<Halves>{}, 1, std::nullopt).empty());
  auto const error = fit(std::type_identity<Decays>{}, 2, CkptPath{file});
  CHECK(error.starts_with("[fulgurite.schedule.kind] "));
  CHECK(error.find("schedules: 0 Exponential in place of 0 Step") != std::string::npos);
  CHECK(error.find("the checkpoint's schedule is Step, and the program's is Exponential") != std::string::npos);
  CHECK(fit(std::type_identity<InPlace>{}, 2, CkptPath{file}).starts_with("[fulgurite.schedule.kind] "));
  CHECK(fit(std::type_identity<Halves>{}, 2, CkptPath{file}).empty());
  CHECK(fit(std::type_identity<InPlace>{}, 1, std::nullopt).empty());
  CHECK(fit(std::type_identity<InPlace>{}, 2, CkptPath{file}).empty());
}

TEST_CASE("resume: the rates of one optimizer's schedule are never given to another") {
  Folder const folder;
  TwoRates<true> model;
  auto first = make_trainer<TwoRates<true>>(quick(1), SavingDevice{}, Float32{}, Manual{});
  first.fit(model, toy::batches(2), toy::batches(1));
  first.save_checkpoint(folder / "x.safetensors");
  TwoRates<false> other;
  auto then = make_trainer<TwoRates<false>>(quick(2), SavingDevice{}, Float32{}, Manual{});
  auto const file = folder / "x.safetensors";
  auto const error = error_of([&] { then.fit(other, toy::batches(2), toy::batches(1), CkptPath{file}); });
  CHECK(error.find("'schedulers.1' is not in the saved state") != std::string::npos);
}

TEST_CASE("resume: an optimizer of the user's own need not have a name") {
  Folder const folder;
  auto const run = [&](int epochs, From const& from = std::nullopt) {
    OfNameless model;
    auto trainer = make_trainer<OfNameless>(quick(epochs), SavingDevice{}, Float32{}, Automatic{},
                                            ModelCheckpoint{{.dirpath = folder.path, .filename = "{epoch}"}});
    trainer.fit(model, toy::batches(3), toy::batches(1), from);
    return model.p.value();
  };
  double const whole = run(2);
  run(1);
  CHECK(run(2, CkptPath{folder / "epoch=0.safetensors"}) == whole);
}

TEST_CASE("resume: an optimizer without state cannot go on") {
  Folder const folder;
  auto const file = file_in(folder);
  OfForgetful model;
  CHECK(error_from(model, file).starts_with("[fulgurite.resume.optimizer]"));
}

TEST_CASE("resume: a loader that is shorter than what was trained on is refused") {
  Folder const folder;
  Scripted model;
  From from;
  auto first = trainer_of(1, Begins{&folder});
  first.fit(model, ByChoiceSo{{5}}, toy::batches(1), from);
  from = CkptPath{folder / "4.safetensors"};
  Scripted again;
  auto then = trainer_of(1, Begins{});
  std::string error;
  said([&] { error = error_of([&] { then.fit(again, ByChoiceSo{{2}}, toy::batches(1), from); }); });
  CHECK(error.starts_with("[fulgurite.resume.short_loader]"));
  CHECK(again.p.value() == 0);
  CHECK(again.batches == 0);
  CHECK(then.progress().global_step == 0);
}

namespace {
/// It saves its length, and refuses another one; it can jump.
struct OfLength {
  int n;
  long first = 0;
  auto begin() const { return toy::Unsized(n).begin(); }
  auto end() const { return toy::Unsized(n).end(); }
  void resume_at(long batch) { first = batch; }
  void state(auto& archive) {
    int length = n;
    archive("length", length)("first", first);
    if (length != n) throw Error("fulgurite.test.length", "another loader");
  }
};
/// The same loader, made by a data module.
struct OfModule {
  OfLength loader;
  int asked = 0;
  OfLength& train_dataloader() { return ++asked, loader; }
  std::vector<double>& val_dataloader() { return validation; }
  std::vector<double> validation = toy::batches(1);
};
}  // namespace

TEST_CASE("resume: a loader that does not fit is refused before the first epoch, and nothing is left of the file") {
  Folder const folder;
  Scripted model;
  From from;
  auto first = trainer_of(1, Begins{&folder});
  OfLength loader{5};
  first.fit(model, loader, toy::batches(1), from);
  from = CkptPath{folder / "4.safetensors"};
  Scripted again;
  again.p.set(42);
  auto then = trainer_of(1, Begins{});
  OfLength other{4};
  auto const random = toy::world.rng;
  std::string error;
  said([&] { error = error_of([&] { then.fit(again, other, toy::batches(1), from); }); });
  CHECK(error.starts_with("[fulgurite.test.length]"));
  CHECK(again.p.value() == 42);
  CHECK(again.batches == 0);
  CHECK(then.callback<Begins>().epochs == 0);
  CHECK(other.first == 0);
  CHECK(then.callback<Begins>().kept == 1);
  CHECK(then.progress().global_step == 0);
  CHECK_FALSE(then.outcome().best_value);
  CHECK(toy::world.rng == random);
  CHECK_FALSE(then.value(Scripted::vl));
  CHECK_FALSE(then.value(Scripted::loss));
}

TEST_CASE("resume: a loader that does not fit is told with all else, before a hook is called; one of a data module as "
          "soon as it is made") {
  Folder const folder;
  Scripted model;
  From file;
  OfLength loader{5};
  trainer_of(1, Begins{&folder}).fit(model, loader, toy::batches(1), file);
  file = CkptPath{folder / "4.safetensors"};
  OtherOptimizer unlike;
  OfLength other{4};
  auto of_others = make_trainer<OtherOptimizer>(quick(1), SavingDevice{}, Float32{}, Automatic{}, Begins{});
  std::string error;
  said([&] { error = error_of([&] { of_others.fit(unlike, other, toy::batches(1), file); }); });
  CHECK(error.find("'optimizers.0 OtherSgd' is not in the saved state") != std::string::npos);
  CHECK(error.find("another loader") != std::string::npos);
  CHECK(other.first == 0);
  CHECK(of_others.callback<Begins>().fits == 0);
  CHECK(unlike.batches == 0);

  Scripted again;
  auto then = trainer_of(1, Begins{});
  said([&] { error = error_of([&] { then.fit(again, other, toy::batches(1), file); }); });
  CHECK(error.starts_with("[fulgurite.test.length]"));
  CHECK(then.callback<Begins>().fits == 0);
  OfModule module{{4}};
  auto of_module = trainer_of(1, Begins{});
  auto const& begun = of_module.callback<Begins>();
  said([&] { error = error_of([&] { of_module.fit(again, module, file); }); });
  CHECK(error.starts_with("[fulgurite.test.length]"));
  CHECK(module.asked == 1);
  CHECK(module.loader.first == 0);
  CHECK(std::pair(begun.fits, begun.trainings) == std::pair(1, 0));
  OfModule fits_well{{5}};
  said([&] { of_module.fit(again, fits_well, file); });
  CHECK(begun.trainings == 1);
}

namespace {
/// A data module whose training loader has a size.
struct OfSized {
  std::vector<double> training, validation = toy::batches(1);
  std::vector<double>& train_dataloader() { return training; }
  std::vector<double>& val_dataloader() { return validation; }
};
}  // namespace

TEST_CASE("resume: a loader whose size tells that it is too short is refused with all else, before a hook is called; "
          "one of a data module as soon as it is made, one without a size when it ends") {
  Folder const folder;
  Scripted model;
  From file;
  trainer_of(1, Begins{&folder}).fit(model, toy::batches(5), toy::batches(1), file);
  file = CkptPath{folder / "4.safetensors"};
  int fits = 0, trainings = 0;
  std::string const short_one =
      "the run stopped after 4 batches of an epoch that was not finished, and the loader has ";
  auto const refusal_of = [&]<class M>(M& of, TrainerOptions options, auto&... data) {
    of.p.set(42);
    auto trainer = make_trainer<M>(std::move(options), SavingDevice{}, Float32{}, Automatic{}, Begins{});
    auto const& begun = trainer.template callback<Begins>();
    std::string error;
    said([&] { error = error_of([&] { trainer.fit(of, data..., file); }); });
    CHECK(of.p.value() == 42);
    CHECK(of.batches == 0);
    CHECK(begun.epochs == 0);
    CHECK(trainer.progress().global_step == 0);
    CHECK(begun.kept == 1);
    fits = begun.fits, trainings = begun.trainings;
    return error;
  };
  auto validation = toy::batches(1), three = toy::batches(3), four = toy::batches(4), five = toy::batches(5);
  OtherOptimizer unlike;
  auto const all = refusal_of(unlike, quick(1), three, validation);
  CHECK(all.find("'optimizers.0 OtherSgd' is not in the saved state") != std::string::npos);
  CHECK(all.find(short_one + "3 now") != std::string::npos);
  CHECK(fits == 0);

  Scripted again;
  CHECK(
      refusal_of(again, quick(1), four, validation).starts_with("[fulgurite.resume.short_loader] " + short_one + "4"));
  CHECK(std::pair(fits, trainings) == std::pair(0, 0));
  auto limited = quick(1);
  limited.limit_train_batches = 2;
  CHECK(refusal_of(again, limited, five, validation).starts_with("[fulgurite.resume.short_loader] " + short_one + "2"));
  CHECK(fits == 0);
  toy::Unsized seven(7), two(2);
  CHECK(refusal_of(again, limited, seven, validation).starts_with("[fulgurite.resume.short_loader] " + short_one));
  CHECK(fits == 0);
  OfSized module{three};
  CHECK(refusal_of(again, quick(1), module).starts_with("[fulgurite.resume.short_loader] " + short_one + "3"));
  CHECK(std::pair(fits, trainings) == std::pair(1, 0));
  CHECK(refusal_of(again, quick(1), two, validation).starts_with("[fulgurite.resume.short_loader]"));
  CHECK(std::pair(fits, trainings) == std::pair(1, 1));

  // Of an epoch whose batches are all behind it, a run asks for no other: it may have been the last of a longer loader.
  file = CkptPath{folder / "5.safetensors"};
  auto then = trainer_of(1, Begins{});
  said([&] { then.fit(again, three, validation, file); });
  CHECK(again.p.value() == 5);
  CHECK(again.batches == 0);
}

TEST_CASE(
    "a file that a program asks for itself does not know where a loader without a place is, or moments that nobody "
    "saves, which is said") {
  Folder const folder;
  auto const warned = [&](auto loader) {
    Scripted model;
    auto trainer = trainer_of(1, Begins{});
    auto const warnings = said([&] {
      trainer.fit(model, loader, toy::batches(1), From());
      trainer.save_checkpoint(folder / "x.safetensors");
    });
    return warnings.find("[fulgurite.checkpoint.forgets_place]") != std::string::npos;
  };
  CHECK(warned(Unsaid{2}));
  CHECK_FALSE(warned(ByChoiceSo{{2}}));
  CHECK_FALSE(warned(OfLength{2}));
  CHECK_FALSE(warned(toy::batches(2)));
  OfForgetful model;
  model.file = folder / "part.safetensors";
  auto trainer = make_trainer<OfForgetful>(quick(1), SavingDevice{}, Float32{}, Automatic{}, Begins{});
  CHECK(said([&] {
          trainer.fit(model, toy::batches(2), toy::batches(1), From());
        }).find("[fulgurite.checkpoint.forgets_part]") != std::string::npos);
}

namespace {

/// Saves the run when a fit or its training starts, and when an epoch does.
struct SavesEarly {
  using Stateless = ByChoice;
  std::function<void(std::string)> save = {};
  void on_fit_start() const { save("on_fit_start"); }
  void on_train_start() const { save("on_train_start"); }
  void on_train_epoch_start() const { save("on_train_epoch_start"); }
  void on_fit_end() const { save("on_fit_end"); }
};

}  // namespace

TEST_CASE("resume: save_checkpoint is an Error while a file is not loaded whole, and works before and after it") {
  Folder const folder;
  Scripted model;
  std::string refused;
  auto trainer = trainer_of(1, SavesEarly{});
  trainer.callback<SavesEarly>().save = [&](std::string const& place) {
    try {
      trainer.save_checkpoint(folder / place);
    } catch (Error const& error) { refused += place + " " + std::string(error.identifier()) + ", "; }
  };
  auto const fit = [&](int epochs, auto... from) {
    auto options = trainer.options();
    options.max_epochs = epochs;
    trainer.set_options(options);
    said([&] { trainer.fit(model, toy::batches(2), toy::batches(1), From(from...)); });
    return std::exchange(refused, "");
  };
  CHECK(fit(1).empty());
  trainer.save_checkpoint(folder / "x.safetensors");
  auto const half_loaded = "on_fit_start fulgurite.resume.half_loaded, on_train_start fulgurite.resume.half_loaded, ";
  CHECK(fit(2, CkptPath{folder / "x.safetensors"}) == half_loaded);
  CHECK(fit(1, CkptPath{folder / "x.safetensors"}) == "on_fit_start fulgurite.resume.half_loaded, ");

  // The same where a hook has failed in between, until another fit.
  trainer.callback<SavesEarly>().save = [](std::string const& place) {
    if (place == "on_train_start") throw std::runtime_error("a hook failed");
  };
  CHECK_THROWS_AS(fit(2, CkptPath{folder / "x.safetensors"}), std::runtime_error);
  CHECK(error_of([&] { trainer.save_checkpoint(folder / "y"); }).starts_with("[fulgurite.resume.half_loaded]"));
  CHECK(error_of([&] { snapshot(trainer); }).starts_with("[fulgurite.resume.half_loaded]"));
  trainer.callback<SavesEarly>().save = [](std::string const&) {};
  CHECK(fit(2).empty());
  trainer.save_checkpoint(folder / "y");
}

TEST_CASE("resume: where the last of a file does not fit, moments and results are none of it") {
  Folder const folder;
  auto const trainer_for = [&](int epochs) {
    return trainer_of(epochs, ModelCheckpoint{{.dirpath = folder.path,
                                               .filename = "{step}",
                                               .save_top_k = -1,
                                               .every_n_train_steps = 8}});  // inside the second epoch
  };
  Scripted model{.momentum = 0.5}, again{.momentum = 0.5}, fresh{.momentum = 0.5};
  OfLength loader{5}, other{4};
  From from;
  trainer_for(2).fit(model, loader, toy::batches(1), from);
  from = CkptPath{folder / "step=8.safetensors"};
  auto then = trainer_for(2);
  std::string error;
  said([&] { error = error_of([&] { then.fit(again, other, toy::batches(1), from); }); });
  REQUIRE(error.starts_with("[fulgurite.test.length]"));
  CHECK_FALSE(then.value(Scripted::vl));
  then.save_checkpoint(folder / "y.safetensors");
  auto const state_of = [&](char const* name) {
    SafetensorsFile const file(folder / name);
    return run_state(file);
  };
  auto const of = state_of("step=8.safetensors"), now = state_of("y.safetensors");
  CHECK(to_text(*of.find("optimizers")) != to_text(*now.find("optimizers")));
  auto untouched = trainer_for(1);
  auto none = quick(1);
  none.limit_train_batches = 0;
  untouched.set_options(none);
  untouched.fit(fresh, loader, toy::batches(1), From());
  untouched.save_checkpoint(folder / "z.safetensors");
  auto const without = state_of("z.safetensors");
  CHECK(to_text(*now.find("optimizers")) == to_text(*without.find("optimizers")));
  CHECK(to_text(*now.find("results")) == to_text(*without.find("results")));
}

TEST_CASE(
    "resume: a callback that the file knows nothing of starts anew, one that is gone is left out; both are said") {
  Folder const folder;
  auto const file = file_in(folder);
  Scripted model;
  auto trainer = trainer_of(2, EarlyStopping{Scripted::vl});
  auto const warnings = said([&] { trainer.fit(model, toy::batches(2), toy::batches(1), CkptPath{file}); });
  CHECK(warnings.find("[fulgurite.resume.callback] the file holds no state of EarlyStopping") != std::string::npos);
  CHECK(warnings.find("[fulgurite.resume.no_callback] the file holds a state of ModelCheckpoint") != std::string::npos);
  CHECK(model.p.value() == 4);
}

TEST_CASE("resume: stopped between two files of one step, the second is still written, under its name") {
  Folder const folder;
  auto const a = ModelCheckpoint{{.dirpath = folder / "a", .save_top_k = -1, .every_n_train_steps = 2}};
  Second const b{{.dirpath = folder / "b", .save_top_k = -1, .every_n_train_steps = 1}};
  Scripted model;
  From from;
  trainer_of(1, a, b).fit(model, toy::batches(4), toy::batches(1), from);
  auto const whole = folder.files();
  std::filesystem::remove_all(folder / "b");  // what another process had not written when it was killed
  std::filesystem::remove(folder / "a/epoch=0-step=4.safetensors");
  Scripted again;
  auto trainer = trainer_of(1, a, b);
  from = CkptPath{folder / "a/epoch=0-step=2.safetensors"};
  trainer.fit(again, toy::batches(4), toy::batches(1), from);
  CHECK(folder.files() == std::set<std::string>{"a/epoch=0-step=2.safetensors", "a/epoch=0-step=4.safetensors",
                                                "b/epoch=0-step=2.safetensors", "b/epoch=0-step=3.safetensors",
                                                "b/epoch=0-step=4.safetensors"});
  CHECK(whole.size() == 6);
}

TEST_CASE("resume: a validation that failed is done again, the step before it is not") {
  Folder const folder;
  Scripted model{.fails_in_validation = true}, again;
  auto trainer = trainer_of(1, OnExceptionCheckpoint{{.dirpath = folder.path}});
  said([&] { CHECK_THROWS(trainer.fit(model, toy::batches(3), toy::batches(1))); });
  CHECK(model.batches == 3);
  said([&] { trainer.fit(again, toy::batches(3), toy::batches(1)); });
  CHECK(again.batches == 0);
  CHECK(again.p.value() == 3);
  CHECK(trainer.value(Scripted::vl) == 1);
}

TEST_CASE("resume: a batch that failed inside a window is done again with the window, so the step is the same") {
  Folder const folder;
  auto const trainer_for = [&] {
    return make_trainer<Sloped>(TrainerOptions{.max_epochs = 1}, SavingDevice{}, Float32{},
                                Automatic{.accumulate_grad_batches = 3},
                                OnExceptionCheckpoint{{.dirpath = folder.path}});
  };
  Sloped model;
  model.fails_at = 4;
  auto first = trainer_for();
  said([&] { CHECK_THROWS(first.fit(model, toy::batches(6))); });
  Sloped again;
  auto then = trainer_for();
  said([&] { then.fit(again, toy::batches(6)); });
  CHECK(again.stepped == std::vector<double>{5});  // the mean of 4, 5, 6
  CHECK(then.progress().global_step == 2);
  CHECK(then.progress().total_batches == 6);
}

TEST_CASE("resume: a program that does not fit a rescued run writes nothing over its file") {
  Folder const folder;
  Scripted model{.fails_at = 1};
  CHECK(error_of([&] {
          fitted(model, quick(1), 3, OnExceptionCheckpoint{{.dirpath = folder.path}});
        }).starts_with("[fulgurite.test.step]"));
  auto const file = folder / "on_exception.safetensors";
  auto const rescued = content(file);
  OwnOptimizer wrong;
  auto other = make_trainer<OwnOptimizer>(quick(1), SavingDevice{}, Float32{}, Automatic{},
                                          OnExceptionCheckpoint{{.dirpath = folder.path}});
  said([&] { CHECK_FALSE(error_of([&] { other.fit(wrong, toy::batches(3), toy::batches(1)); }).empty()); });
  CHECK(content(file) == rescued);
  Scripted rehearsed;  // a rehearsal is no run that could go on
  auto rehearsal = quick(1);
  rehearsal.fast_dev_run = 1;
  said([&] { fitted(rehearsed, rehearsal, 3, OnExceptionCheckpoint{{.dirpath = folder.path}}); });
  CHECK(rehearsed.p.value() == 1);
  CHECK(content(file) == rescued);
}

namespace {

/// Steps by hand after every second batch.
struct ByHand {
  toy::Tensor p = toy::Tensor::parameter(0.0);
  std::vector<double> stepped = {};
  void training_step(double batch, auto& ctx) {
    auto& [optimizer] = ctx.optimizers();
    auto loss = p * toy::Tensor(batch + 1);
    ctx.backward(loss);
    if (static_cast<long>(batch) % 2 == 0) return;
    stepped.push_back(p.grad());
    ctx.step(optimizer);
    optimizer.zero_grad();
  }
  toy::Sgd configure_optimizers() { return toy::Sgd{{p}}; }
};
struct AsksAfter {
  using Stateless = ByChoice;
  long batch;
  void on_train_batch_end(auto& ctx) {
    if (ctx.batch_idx() == batch) ctx.request_checkpoint("by_hand");
  }
};

}  // namespace

TEST_CASE("resume: gradients that a manual step is still to use are there") {
  for (auto const& from : {std::optional<CkptPath>(), std::optional(CkptPath{"by_hand"})}) {
    ByHand model;
    auto trainer = make_trainer<ByHand>({.max_epochs = 1}, toy::Device{}, Float32{}, Manual{}, AsksAfter{2});
    std::string warnings = said([&] { trainer.fit(model, toy::batches(4), from); });
    CHECK(model.stepped == (from ? std::vector<double>{7} : std::vector<double>{3, 7}));
    CHECK(model.p.value() == -10);
  }
}

TEST_CASE("resume: an evaluation from a file leaves counters as they are, and what does not fit is put back") {
  Folder const folder;
  auto const file = file_in(folder);
  Scripted model;
  auto trainer = trainer_of(3, Begins{});
  trainer.fit(model, toy::batches(2), toy::batches(1), From());
  trainer.validate(model, toy::batches(1), CkptPath{file});
  CHECK(model.p.value() == 2);
  CHECK(trainer.progress().epoch == 3);
  OtherOptimizer unlike;
  unlike.p.set(42);
  auto other = make_trainer<OtherOptimizer>(quick(1), SavingDevice{}, Float32{}, Automatic{});
  CHECK_FALSE(error_of([&] { other.validate(unlike, toy::batches(1), CkptPath{file}); }).empty());
  CHECK(unlike.p.value() == 42);
}

namespace {

/// Has a step of its own, which is shown the loss.
struct ShowsLoss {
  toy::Tensor p = toy::Tensor::parameter(1.0);
  std::vector<double> shown = {};
  toy::Tensor training_step(double batch) { return p * toy::Tensor(batch + 1); }
  void optimizer_step(auto& optimizer, auto const& closure, auto&) {
    optimizer.step([&] {
      auto const loss = closure();
      shown.push_back(loss.defined() ? loss.value() : -1);
      return loss;
    });
  }
  void validation_step(double) {}
  toy::Sgd configure_optimizers() { return toy::Sgd{{p}}; }
};
/// After the first validation, inside a window: a file, and the end.
struct EndsInWindow {
  using Stateless = ByChoice;
  void on_validation_end(auto& ctx) {
    if (ctx.sanity_checking()) return;
    ctx.request_checkpoint("in_window");
    ctx.request_stop();
  }
};

}  // namespace

TEST_CASE("resume: a window that a stop ends shows a step of the model's own the loss that it would have shown") {
  TrainerOptions options{.max_epochs = 1};
  options.val_check_interval = 2;
  for (auto const& from : {std::optional<CkptPath>(), std::optional(CkptPath{"in_window"})}) {
    ShowsLoss model;
    auto trainer = make_trainer<ShowsLoss>(options, toy::Device{}, Float32{}, Automatic{.accumulate_grad_batches = 3},
                                           EndsInWindow{});
    said([&] { trainer.fit(model, toy::batches(6), toy::batches(1), from); });
    CHECK(model.shown == std::vector<double>{2});
    CHECK(trainer.progress().global_step == 1);
    CHECK(model.p.value() == 1 - 1.5);
  }
}
