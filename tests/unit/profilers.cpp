#include <fulgurite/callback/model_checkpoint.hpp>
#include <fulgurite/callback/simple_profiler.hpp>
#include <fulgurite/logger/csv_logger.hpp>
#include <fulgurite/report/describe.hpp>
#include <fulgurite/report/profile.hpp>

#include <algorithm>
#include <map>
#include <numeric>

#include "callback_run.hpp"
#include "callback_stream.hpp"
#include "models.hpp"

using namespace fulgurite;

namespace {
std::map<std::string, long> calls(report::Profile const& profile) {
  std::map<std::string, long> of;
  for (auto const& one : profile.spent) of[one.action] = one.calls;
  return of;
}

/// Writes down when actions begin and end.
struct Script {
  using Stateless = ByChoice;
  std::string* text;
  char mark = ' ';
  struct Line {
    Script* script;
    char const* name;
    bool counts;
    Line(Script& s, ProfiledAction const& action) : script(&s), name(action.name), counts(action.counts) { say('>'); }
    Line(Line const&) = delete;
    ~Line() { say('<'); }
    void say(char what) const {
      if (!counts || !script->text) return;
      *script->text += what;
      if (script->mark != ' ') *script->text += script->mark;
      *script->text += std::string(name) + '\n';
    }
  };
  Line profile_action(ProfiledAction const& action) { return {*this, action}; }
};

struct Second : Script {};

/// A step by hand, with a part of its own.
struct ByHand {
  toy::Tensor p = toy::Tensor::parameter(0.0);
  void training_step(double, auto& ctx) {
    auto& [optimizer] = ctx.optimizers();
    {
      auto const watched = ctx.profile("augment");
      auto const again = ctx.profile("augment");
    }
    optimizer.zero_grad();
    ctx.backward(-p);
    ctx.step(optimizer);
  }
  auto configure_optimizers() { return optimizers(toy::Sgd{{p}}); }
};

struct Nosy {
  using Stateless = ByChoice;
  void on_train_batch_start() {}
};
}  // namespace

TEST_CASE("profiler: every action of a fit is counted, under Lightning's names") {
  Folder const folder;
  Stream out;
  auto options = quick(2);
  options.default_root_dir = folder.path;
  Scripted model;
  auto trainer = fitted(model, options, 4, SimpleProfiler{{.filename = "perf", .stream = out.file, .row_limit = 0}},
                        Nosy{}, CSVLogger{folder.path}, ModelCheckpoint{{.dirpath = folder.path / "files"}});
  auto const& found = trainer.callback<SimpleProfiler>().result();
  auto of = calls(found);
  CHECK(of["run_training_epoch"] == 2);
  CHECK(of["[_TrainingEpochLoop].train_dataloader_next"] == 8);
  CHECK(of["[Strategy]SavingDevice.batch_to_device"] == 10);
  CHECK(of["run_training_batch"] == 8);
  CHECK(of["[Strategy]SavingDevice.training_step"] == 8);
  CHECK(of["[LightningModule]Scripted.optimizer_zero_grad"] == 8);
  CHECK(of["[Strategy]SavingDevice.backward"] == 8);
  CHECK(of["[LightningModule]Scripted.configure_gradient_clipping"] == 8);
  CHECK(of["[LightningModule]Scripted.optimizer_step"] == 8);
  CHECK(of["run_validation"] == 2);
  CHECK(of["[_EvaluationLoop].val_next"] == 2);
  CHECK(of["[Strategy]SavingDevice.validation_step"] == 2);
  CHECK(of["[Callback]Nosy.on_train_batch_start"] == 8);
  CHECK(of["save_checkpoint"] == 2);
  CHECK(of["[Logger]CSVLogger.log_metrics"] == 10);

  std::int64_t own = 0;
  for (auto const& one : found.spent) {
    INFO(one.action);
    CHECK((one.own >= 0 && one.own <= one.total && one.longest <= one.total && one.total <= found.total));
    own += one.own;
  }
  CHECK(own <= found.total);
  auto const share = found.shares();
  CHECK(std::abs(std::accumulate(share.begin(), share.end(), 0.0) - 100) < 1e-6);

  auto const text = out.all();
  CHECK(text.starts_with("SimpleProfiler: fit\nAction"));
  CHECK(text.find(" % of the time ") != std::string::npos);
  auto const run = trainer.callback<CSVLogger>().log_dir();
  CHECK(text == "SimpleProfiler: fit\n" + content(run / "fit-perf.txt"));  // with row_limit = 0
  auto const csv = content(run / "fit-perf.csv");
  CHECK(csv.starts_with("part,action,calls,total_s,own_s,longest_s\nrun,Total,1,"));
  CHECK(csv.find("\nupdate,\"[LightningModule]Scripted.optimizer_step\",8,") != std::string::npos);

  // The next run is measured by itself.
  trainer.validate(model, toy::batches(3));
  of = calls(trainer.callback<SimpleProfiler>().result());
  CHECK(of["[_EvaluationLoop].val_next"] == 3);
  CHECK_FALSE(of.contains("run_training_batch"));
  CHECK(out.all().find("SimpleProfiler: validate\n") != std::string::npos);
  CHECK((report::order_name(Order::profiler) == "profiler" && report::order_name(Order::checkpoint) == "checkpoint"));
  options.barebones = true;
  CHECK(error_of([&] { fitted(model, options, 4, SimpleProfiler{}); }).starts_with("[fulgurite.options.barebones]"));
  CHECK(error_of([] { SimpleProfiler{{.filename = "a/b"}}; }).starts_with("[fulgurite.callback.profiler_filename]"));
}

TEST_CASE("profiler: what is inside of what, for profilers of one's own as well") {
  std::string text;
  toy::Validated net;
  auto trainer = toy::train<toy::Validated>({.max_epochs = 1, .num_sanity_val_steps = 0}, {}, Script{&text}, Nosy{});
  trainer.fit(net, toy::batches(1), toy::batches(1));
  CHECK(text == ">run_training_epoch\n"
                ">[_TrainingEpochLoop].train_dataloader_next\n<[_TrainingEpochLoop].train_dataloader_next\n"
                ">[Strategy]DeviceOn.batch_to_device\n<[Strategy]DeviceOn.batch_to_device\n"
                ">[Callback]Nosy.on_train_batch_start\n<[Callback]Nosy.on_train_batch_start\n"
                ">run_training_batch\n"
                ">[Strategy]DeviceOn.training_step\n<[Strategy]DeviceOn.training_step\n"
                ">[LightningModule]Validated.optimizer_zero_grad\n<[LightningModule]Validated.optimizer_zero_grad\n"
                ">[Strategy]DeviceOn.backward\n<[Strategy]DeviceOn.backward\n"
                ">[LightningModule]Validated.configure_gradient_clipping\n"
                "<[LightningModule]Validated.configure_gradient_clipping\n"
                ">[LightningModule]Validated.optimizer_step\n<[LightningModule]Validated.optimizer_step\n"
                "<run_training_batch\n"
                ">run_validation\n"
                ">[_EvaluationLoop].val_next\n<[_EvaluationLoop].val_next\n"
                ">[Strategy]DeviceOn.batch_to_device\n<[Strategy]DeviceOn.batch_to_device\n"
                ">[Strategy]DeviceOn.validation_step\n<[Strategy]DeviceOn.validation_step\n"
                "<run_validation\n"
                "<run_training_epoch\n");
}

TEST_CASE("profiler: two of them see the same, an action is named by hand, and one that fails ends") {
  std::string text;
  ByHand net;
  auto trainer = make_trainer<ByHand>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Manual{},
                                      Script{&text, 'a'}, SimpleProfiler{{.stream = nullptr}}, Second{{&text, 'b'}});
  trainer.fit(net, toy::batches(2), NoValidation{});
  auto const at = text.find(">aaugment");
  REQUIRE(at != std::string::npos);
  CHECK(text.substr(at).starts_with(">aaugment\n>baugment\n>aaugment\n>baugment\n<baugment\n<aaugment\n<baugment\n"
                                    "<aaugment\n>a[Strategy]DeviceOn.backward\n"));
  auto of = calls(trainer.callback<SimpleProfiler>().result());
  CHECK(of["augment"] == 4);
  CHECK(of["[Strategy]DeviceOn.training_step"] == 2);
  CHECK(of["[Strategy]DeviceOn.backward"] == 2);
  CHECK(of["[LightningModule]ByHand.optimizer_step"] == 2);
  CHECK(std::ranges::count(text, '>') == std::ranges::count(text, '<'));

  Stream out;
  Scripted fails{.fails_at = 2};
  std::string seen;
  auto failing = ScriptedTrainer<SimpleProfiler, Script>(quick(1), SavingDevice{}, Float32{}, Automatic{},
                                                         SimpleProfiler{{.stream = out.file}}, Script{&seen});
  CHECK_THROWS_AS(failing.fit(fails, toy::batches(4), toy::batches(1)), Error);
  CHECK(out.all().starts_with("SimpleProfiler: fit, until it failed\n"));
  CHECK(calls(failing.callback<SimpleProfiler>().result())["[Strategy]SavingDevice.training_step"] == 3);
  CHECK(std::ranges::count(seen, '>') == std::ranges::count(seen, '<'));

  // Nothing is opened where nobody watches.
  toy::P alone;
  auto unwatched = toy::train<toy::P>({.max_epochs = 1}, {}, Nosy{});
  unwatched.fit(alone, toy::batches(1), NoValidation{});
  static_assert(!Pack<Nosy>::profiles &&
                std::is_empty_v<decltype(std::declval<Pack<Nosy>&>().profile<action::train_next>())>);
}

TEST_CASE("profiler: a batch is one wait, whatever the loader promises") {
  auto const waits = [](auto&& loader) {
    toy::P net;
    auto trainer = toy::train<toy::P>({.max_epochs = 2}, {}, SimpleProfiler{{.stream = nullptr}});
    trainer.fit(net, loader, NoValidation{});
    return calls(trainer.template callback<SimpleProfiler>().result())["[_TrainingEpochLoop].train_dataloader_next"];
  };
  CHECK(waits(toy::batches(3)) == 6);
  CHECK(waits(toy::Unsized(3)) == 6);
  CHECK(waits(toy::Generator([](long, long b) { return b < 3 ? std::optional(1.0) : std::nullopt; })) == 6);
}

TEST_CASE("profiler: the table, and the sentence that says what is slow") {
  report::Profile profile{.total = 2'000'000'000};
  profile.spent = {{"run_training_epoch", RunPart::loop, 1, 1'990'000'000, 40'000'000, 1'990'000'000},
                   {"next", RunPart::data, 100, 1'240'000'000, 1'240'000'000, 31'500'000},
                   {"backward", RunPart::backward, 100, 400'000'000, 400'000'000, 5'000'000},
                   {"step", RunPart::step, 100, 310'000'000, 310'000'000, 4'000'000}};
  CHECK(
      profile.sentence() ==
      "62 % of the time waits for data, 20 % backward, 16 % training_step, 2 % everything else. Let more workers make "
      "the batches, ahead of the steps, or make a batch cheaper.");
  CHECK(profile.table() == "Action             | Mean    | Calls | Total  | %     | Own    | Longest\n"
                           "------------------------------------------------------------------------\n"
                           "Total              | -       | 1     | 2 s    | 100   |        |        \n"
                           "run_training_epoch | 1.99 s  | 1     | 1.99 s | 99.50 | 40 ms  | 1.99 s \n"
                           "next               | 12.4 ms | 100   | 1.24 s | 62.00 | 1.24 s | 31.5 ms\n"
                           "backward           | 4 ms    | 100   | 400 ms | 20.00 | 400 ms | 5 ms   \n"
                           "step               | 3.1 ms  | 100   | 310 ms | 15.50 | 310 ms | 4 ms   \n"
                           "------------------------------------------------------------------------\n");
  // Where it would be too wide, the last columns go, then those beside the shares, and names are cut at their
  // beginnings.
  CHECK(profile.table(0, 72) == profile.table());
  CHECK(profile.table(1, 66) == "Action             | Mean   | Calls | Total  | %     | Own  \n"
                                "------------------------------------------------------------\n"
                                "Total              | -      | 1     | 2 s    | 100   |      \n"
                                "run_training_epoch | 1.99 s | 1     | 1.99 s | 99.50 | 40 ms\n"
                                "------------------------------------------------------------\nand 3 that took less\n");
  CHECK(profile.table(2, 48) == "Action             | Mean    | Total  | %    \n"
                                "---------------------------------------------\n"
                                "Total              | -       | 2 s    | 100  \n"
                                "run_training_epoch | 1.99 s  | 1.99 s | 99.50\n"
                                "next               | 12.4 ms | 1.24 s | 62.00\n"
                                "---------------------------------------------\nand 2 that took less\n");
  CHECK(profile.table(1, 30) == "Action        | Total  | %    \n"
                                "------------------------------\n"
                                "Total         | 2 s    | 100  \n"
                                "…aining_epoch | 1.99 s | 99.50\n"
                                "------------------------------\nand 3 that took less\n");
  profile.spent[2].own = 1'500'000'000;
  CHECK(profile.sentence().starts_with("75 % of the time is backward, 62 % waiting for data"));
  CHECK(report::Profile{}.sentence() ==
        "0 % of the time waits for data. Let more workers make the batches, ahead of the "
        "steps, or make a batch cheaper.");
  // Who asks for a test alone wants no advice to test less.
  CHECK(report::Profile{{{"test_step", RunPart::evaluation, 1, 9, 9, 9}}, 9}.sentence() ==
        "100 % of the time is the steps of validation, test or predict.");
  CHECK(report::wrapped("one two, three", 8) == "one two,\nthree\n");
  CHECK(report::wrapped("one /a/long/path two", 7) == "one\n/a/long/path\ntwo\n");
  CHECK(report::wrapped("one two", 0) == "one two\n");
  CHECK(report::duration_text(999.6) == "1 us");
  CHECK(report::duration_text(64) == "64 ns");
}

TEST_CASE("profiler: operators inside of each other, on two threads and a GPU, with what they allocate") {
  auto const rows = report::operator_times(
      {{.name = "linear", .thread = 1, .began = 100, .ended = 200},
       {.name = "addmm", .thread = 1, .began = 110, .ended = 190},
       {.name = "[memory]", .thread = 1, .began = 190, .ended = 190, .bytes = 64, .is_allocation = true},
       {.name = "addmm", .thread = 2, .began = 150, .ended = 250},
       {.name = "[memory]", .thread = 2, .began = 260, .ended = 260, .bytes = -64, .is_allocation = true},
       {.name = "linear", .thread = 1, .began = 200, .ended = 230},
       {.name = "kernel", .thread = 3, .began = 120, .ended = 121, .on_device = true}});
  REQUIRE(rows.size() == 3);
  CHECK((rows[0].name == "addmm" && rows[0].calls == 2 && rows[0].own == 180 && rows[0].total == 180));
  CHECK((rows[1].name == "linear" && rows[1].calls == 2 && rows[1].own == 50 && rows[1].total == 130));
  CHECK((rows[0].bytes == 64 && rows[1].bytes == 0 && rows[2].device == 1));
  auto twice = rows;
  report::add_operator_times(twice, {{.name = "linear", .calls = 1, .own = 200, .total = 210, .bytes = 8},
                                     {.name = "relu", .calls = 1, .own = 1, .total = 1}});
  REQUIRE(twice.size() == 4);
  CHECK((twice[0].name == "linear" && twice[0].calls == 3 && twice[0].own == 250 && twice[0].total == 340));
  CHECK((twice[0].bytes == 8 && twice[1].name == "addmm" && twice[1].own == 180));
  CHECK(report::operator_table(rows, 2) ==
        "Name   | Self CPU % | Self CPU | CPU total | Calls | CPU mean | Self memory | GPU total\n"
        "---------------------------------------------------------------------------------------\n"
        "addmm  | 78.26      | 180 ns   | 180 ns    | 2     | 90 ns    | 64 B        | 0 ns     \n"
        "linear | 21.74      | 50 ns    | 130 ns    | 2     | 65 ns    | 0 B         | 0 ns     \n"
        "---------------------------------------------------------------------------------------\n"
        "Self CPU time total: 230 ns\nGPU time total: 1 ns\n");
}
