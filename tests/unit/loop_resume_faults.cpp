// What a run that goes on must not lose, repeat or remember: files that do not fit, files that are gone, rows of a
// window, the place of a loader.

#include <algorithm>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <fulgurite/callback/learning_rate_monitor.hpp>
#include <fulgurite/callback/model_checkpoint.hpp>
#include <fulgurite/callback/signals.hpp>
#include <fulgurite/callback/stochastic_weight_averaging.hpp>
#include <fulgurite/callback/weight_averaging.hpp>
#include <fulgurite/logger/csv_logger.hpp>

#include "callback_run.hpp"
#include "callback_stderr.hpp"

using namespace fulgurite;

namespace {

TrainerOptions below(std::filesystem::path const& folder, int epochs) {
  auto options = quick(epochs);
  options.default_root_dir = folder;
  return options;
}
template <class... Cs>
auto trainer_of(TrainerOptions options, Cs... callbacks) {
  return Trainer<Scripted, SavingDevice, Float32, Automatic, Cs...>(std::move(options), SavingDevice{}, Float32{},
                                                                    Automatic{}, std::move(callbacks)...);
}

/// A loader that saves its place, of a data module that counts its set-ups.
struct Keeps {
  struct Iterator {
    Keeps* loader;
    long i;
    double operator*() const { return static_cast<double>(loader->drawn); }
    Iterator& operator++() {
      ++loader->drawn;
      ++i;
      return *this;
    }
    bool operator!=(long n) const { return i != n; }
  };
  long drawn = 0;
  Iterator begin() { return {this, 0}; }
  long end() const { return 4; }
  std::size_t size() const { return 4; }
  void state(auto& archive) { archive("drawn", drawn); }
};
struct Module {
  Keeps loader{};
  long setups = 0;
  void setup() { ++setups; }
  Keeps& train_dataloader() { return loader; }
  void state(auto& archive) { archive("setups", setups); }
};

/// Another optimizer than that of a file.
struct OtherSgd : toy::Sgd {
  static constexpr std::string_view name() { return "OtherSgd"; }
};
struct WithOther : Scripted {
  OtherSgd configure_optimizers() { return {{{p}}}; }
};
struct FailsToValidate : Scripted {
  bool fails = true;
  void validation_step(double batch, auto& ctx) {
    if (std::exchange(fails, false)) throw Error("fulgurite.test.validation", "failed");
    Scripted::validation_step(batch, ctx);
  }
};
/// A row for each batch, at its beginning.
struct Posts {
  using Stateless = ByChoice;
  std::function<void(long)> then = nullptr;
  void on_train_batch_start(auto& ctx) {
    Scalar const row[] = {{"posted", static_cast<double>(ctx.batch_idx())}};
    ctx.log_scalars(row);
    if (then) then(ctx.batch_idx());
  }
};

}  // namespace

TEST_CASE("resume: a file that is saved when a fit has ended has the place of its loader, and what its data keep") {
  Folder const folder;
  Scripted model, again;
  auto first = trainer_of(below(folder.path, 2), Posts{});
  {
    Keeps data;
    first.fit(model, data, NoValidation{});
  }
  first.save_checkpoint(folder / "after.safetensors");
  Keeps other;
  auto then = trainer_of(below(folder.path, 3), Posts{});
  then.fit(again, other, NoValidation{}, CkptPath{folder / "after.safetensors"});
  CHECK(other.drawn == 12);

  Module module{.setups = 5}, fresh;
  auto of_module = trainer_of(below(folder.path, 2), Posts{});
  of_module.fit(model, module, NoValidation{});
  of_module.fit(model, module, NoValidation{});  // nothing is left to train
  CHECK(module.setups == 7);
  of_module.save_checkpoint(folder / "module.safetensors");
  auto goes_on = trainer_of(below(folder.path, 3), Posts{});
  goes_on.fit(again, fresh, NoValidation{}, CkptPath{folder / "module.safetensors"});
  CHECK(fresh.loader.drawn == 12);
  CHECK(fresh.setups == 6);  // the file's
}

TEST_CASE("resume: a file that does not fit leaves no move, no average and no folder in callbacks") {
  Folder const folder;
  Scripted model;
  fitted(model, quick(2), 3, ModelCheckpoint{{.dirpath = folder / "a", .filename = "x"}},
         StochasticWeightAveraging{{.swa_lrs = 0.05, .swa_epoch_start = 1}});
  WithOther other;
  using Swa = StochasticWeightAveraging<>;
  auto trainer = make_trainer<WithOther>(below(folder.path, 2), SavingDevice{}, Float32{}, Automatic{},
                                         ModelCheckpoint{}, Swa{{.swa_lrs = 0.05, .swa_epoch_start = 1}});
  auto const warnings = said([&] {
    auto const error =
        error_of([&] { trainer.fit(other, toy::batches(3), toy::batches(1), CkptPath{folder / "a/x.safetensors"}); });
    CHECK(error.find("OtherSgd") != std::string::npos);
    CHECK(trainer.template callback<ModelCheckpoint<>>().dirpath().empty());
    trainer.fit(other, toy::batches(3), toy::batches(1));
  });
  CHECK(warnings.find("checkpoint_moved") == std::string::npos);
  CHECK(trainer.template callback<ModelCheckpoint<>>().dirpath() == folder / "checkpoints");
  // Steps of 0.05 from 0: the mean of the weights at the ends of two epochs.
  CHECK(trainer.template callback<Swa>().n_averaged() == 2);

  // A trainer that has an average of an earlier fit begins the next one anew, too.
  auto const averaged = other.p.value();
  said([&] {
    CHECK_FALSE(error_of([&] {
                  trainer.fit(other, toy::batches(3), toy::batches(1), CkptPath{folder / "a/x.safetensors"});
                }).empty());
    CHECK(other.p.value() == averaged);
    auto options = trainer.given_options();
    options.max_epochs = 3;
    trainer.set_options(options);
    trainer.fit(other, toy::batches(3), toy::batches(1));
  });
  CHECK(trainer.template callback<Swa>().n_averaged() == 1);
}

TEST_CASE("resume: files of the ranking that are gone leave it, which is said, and the best is one that is there") {
  for (bool const best_is_gone : {false, true}) {
    CAPTURE(best_is_gone);
    Folder const folder;
    ModelCheckpoint files{Scripted::vl, {.dirpath = folder / "runs", .filename = "{epoch}", .save_top_k = 3}};
    Scripted model{.script = {1, 3, 2}};
    fitted(model, quick(3), 2, files);
    auto const file = [&](int epoch) { return folder / ("runs/epoch=" + std::to_string(epoch) + ".safetensors"); };
    std::filesystem::remove(file(best_is_gone ? 0 : 1));
    Scripted again{.script = {1, 3, 2, 4, 5}};
    auto trainer = trainer_of(quick(5), files);
    auto const warnings = said([&] { trainer.fit(again, toy::batches(2), toy::batches(1), CkptPath{file(2)}); });
    CHECK(warnings.find("[fulgurite.callback.checkpoint_gone] ModelCheckpoint: " +
                        file(best_is_gone ? 0 : 1).string()) != std::string::npos);
    auto const& callback = trainer.template callback<decltype(files)>();
    CHECK(callback.best_model_path() == file(best_is_gone ? 2 : 0));
    CHECK(callback.best_model_score() == (best_is_gone ? 2 : 1));
    auto const kept = callback.best_k_models();
    CHECK(kept.size() == 3);
    CHECK(std::all_of(kept.begin(), kept.end(), [](auto const& one) { return std::filesystem::exists(one); }));
  }
}

TEST_CASE("resume: a window that fails, is resumed inside and fails again has each of its rows once") {
  Folder const folder;
  said([&] {
    auto options = below(folder.path, 1);
    options.val_check_interval = 2;
    auto const of = [&](std::function<void(long)> then) {
      return make_trainer<FailsToValidate>(options, SavingDevice{}, Float32{}, Automatic{.accumulate_grad_batches = 4},
                                           Posts{std::move(then)}, CSVLogger{},
                                           OnExceptionCheckpoint{{.dirpath = folder.path}});
    };
    FailsToValidate a, b{{}, false}, c{{}, false};
    auto first = of(nullptr);
    CHECK_FALSE(error_of([&] { first.fit(a, toy::batches(4), toy::batches(1)); }).empty());
    auto second = of([](long batch) {
      if (batch == 2) throw Error("fulgurite.test.batch", "failed");
    });
    CHECK_FALSE(error_of([&] { second.fit(b, toy::batches(4), toy::batches(1)); }).empty());
    auto third = of(nullptr);
    third.fit(c, toy::batches(4), toy::batches(1));
  });
  auto const table = content(folder / "lightning_logs/version_0/metrics.csv");
  INFO(table);
  Folder const whole;
  Scripted model;
  auto options = below(whole.path, 1);
  options.val_check_interval = 2;
  auto unbroken = make_trainer<Scripted>(options, SavingDevice{}, Float32{}, Automatic{.accumulate_grad_batches = 4},
                                         Posts{}, CSVLogger{}, OnExceptionCheckpoint{{.dirpath = whole.path}});
  said([&] { unbroken.fit(model, toy::batches(4), toy::batches(1)); });
  CHECK(table == content(whole / "lightning_logs/version_0/metrics.csv"));
}

TEST_CASE("resume: a window that is done again has its row of learning rates") {
  struct FailsInStep {
    using Stateless = ByChoice;
    long at = -1;
    void on_after_backward(Context& ctx) {
      if (ctx.batch_idx() == std::exchange(at, at == ctx.batch_idx() ? -1 : at))
        throw Error("fulgurite.test.failed", "something failed");
    }
  };
  auto const table = [](long fails_at, int window) {
    Folder const folder;
    auto options = below(folder.path, 1);
    options.log_every_n_steps = 1;
    auto const trained = [&](long at) {
      Scripted model;
      auto trainer = make_trainer<Scripted>(
          options, SavingDevice{}, Float32{}, Automatic{.accumulate_grad_batches = window}, FailsInStep{at},
          LearningRateMonitor{}, CSVLogger{}, OnExceptionCheckpoint{{.dirpath = folder.path}});
      return error_of([&] { trainer.fit(model, toy::batches(4), toy::batches(1)); }).empty();
    };
    said([&] {
      if (fails_at >= 0) CHECK_FALSE(trained(fails_at));
      CHECK(trained(-1));
    });
    return content(folder / "lightning_logs/version_0/metrics.csv");
  };
  for (int const window : {1, 2}) {
    CAPTURE(window);
    CHECK(table(3, window) == table(-1, window));
  }
}

TEST_CASE("an epoch that is skipped leaves its step to the next one, whose learning rate is logged once") {
  struct Skips {
    Flow on_train_batch_start(Context& ctx) { return ctx.current_epoch() == 0 ? Flow::skip_epoch : Flow::proceed; }
  };
  Folder const folder;
  auto options = below(folder.path, 3);
  options.log_every_n_steps = 1;
  auto trainer = trainer_of(options, Skips{}, LearningRateMonitor{{.logging_interval = Interval::step}}, CSVLogger{});
  Scripted model;
  said([&] { trainer.fit(model, toy::batches(2), toy::batches(1)); });
  CHECK(trainer.callback<LearningRateMonitor>().lrs().at("lr-SGD").size() == 4);
}

TEST_CASE("resume: after a failure in the sanity check the fit begins with the start of its first epoch") {
  struct FailsInCheck {
    using Stateless = ByChoice;
    bool fails = false;
    int starts = 0;
    void on_validation_batch_end(Context&) {
      if (std::exchange(fails, false)) throw Error("fulgurite.test.failed", "something failed");
    }
    void on_train_epoch_start(Context&) { ++starts; }
  };
  Folder const folder;
  auto options = below(folder.path, 1);
  options.num_sanity_val_steps = 1;
  auto const trainer = [&](bool fails) {
    return trainer_of(options, FailsInCheck{fails}, OnExceptionCheckpoint{{.dirpath = folder.path}});
  };
  said([&] {
    Scripted first, second;
    auto failing = trainer(true), whole = trainer(false);
    CHECK_FALSE(error_of([&] { failing.fit(first, toy::batches(2), toy::batches(1)); }).empty());
    whole.fit(second, toy::batches(2), toy::batches(1));
    CHECK(whole.callback<FailsInCheck>().starts == 1);
  });
}

TEST_CASE("snapshot: a model of the same shapes under other names is refused") {
  struct Named : Scripted {
    std::string name = "a";
    std::vector<std::pair<std::string, toy::Tensor>> named_parameters() { return {{name, p}}; }
  };
  Named model, other{{}, "b"};
  auto trainer = make_trainer<Named>(quick(1), SavingDevice{}, Float32{}, Automatic{}, Posts{});
  trainer.fit(model, toy::batches(2), toy::batches(1));
  auto const before = snapshot(trainer);
  auto const error = error_of([&] { trainer.fit(other, toy::batches(2), toy::batches(1), before); });
  CHECK(error.starts_with("[fulgurite.resume.snapshot] "));
  CHECK(error.find("it has 'b' where 'a' was") != std::string::npos);
  CHECK(other.p.value() == 0);
}

TEST_CASE("save_in_background where no thread can write files is said, where files are asked for") {
  for (bool const background : {false, true}) {
    Folder const folder;
    Scripted model;
    auto options = quick(1);
    options.save_in_background = background;
    auto trainer = make_trainer<Scripted>(options, toy::Device{}, Float32{}, Automatic{},
                                          ModelCheckpoint{{.dirpath = folder.path}});
    auto const warnings = said([&] { trainer.fit(model, toy::batches(2), toy::batches(1)); });
    CHECK((warnings.find("[fulgurite.options.save_in_background] ") != std::string::npos) == background);
  }
}

namespace {

/// Logs the steps of each epoch at its end, where the model may fail.
struct LogsAtEnd {
  using Stateless = ByChoice;
  void on_train_epoch_end(auto& ctx);
};
struct FailsAtEnd : toy::P {
  static constexpr Metric<"end"> end{};
  using Metrics = MetricList<toy::P::loss, end>;
  bool fails = false;
  std::optional<double> at_end = {};
  void on_train_epoch_end(auto& ctx) {
    if (fails) throw Error("fulgurite.test.failed", "something failed");
    at_end = ctx.value(end);
  }
};
void LogsAtEnd::on_train_epoch_end(auto& ctx) { ctx.log(FailsAtEnd::end, static_cast<double>(ctx.global_step())); }

}  // namespace

TEST_CASE(
    "resume: an epoch that is opened again, since its end failed where a limit had cut it short, has none of it") {
  Folder const folder;
  FailsAtEnd first{{}, true}, second;
  auto const fit = [&](FailsAtEnd& model, std::optional<long> most, std::optional<CkptPath> from) {
    auto options = below(folder.path, 1);
    options.max_steps = most;
    auto trainer = make_trainer<FailsAtEnd>(options, SavingDevice{}, Float32{}, Automatic{}, LogsAtEnd{},
                                            OnExceptionCheckpoint{{.dirpath = folder.path}});
    trainer.fit(model, toy::batches(4), NoValidation{}, from);
  };
  said([&] {
    CHECK_FALSE(error_of([&] { fit(first, 2, std::nullopt); }).empty());
    fit(second, std::nullopt, CkptPath{"last"});
  });
  CHECK(second.at_end == 4);
}
