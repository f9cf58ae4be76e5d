#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <sstream>

#include <fulgurite/callback/early_stopping.hpp>
#include <fulgurite/callback/model_checkpoint.hpp>
#include <fulgurite/callback/progress_bar.hpp>
#include <fulgurite/callback/signals.hpp>
#include <fulgurite/logger/csv_logger.hpp>
#include <fulgurite/report/terminal.hpp>

#include "callback_run.hpp"
#include "callback_stderr.hpp"
#include "callback_stream.hpp"

using namespace fulgurite;
using Lines = std::vector<std::string>;

namespace {
std::size_t count(std::string const& text, std::string const& what) {
  std::size_t n = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}
Lines lines_of(std::string const& text) {
  Lines lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}
/// A place of its own and a clock at zero for each run.
struct Place {
  Stream stream;
  Scripted model{.script = {0.5, 0.25}, .seconds_per_batch = 0.5};
  Place() { fake_seconds = 0; }
  ProgressBar bar(ProgressBarOptions options = {}) {
    options.stream = stream.file;
    return ProgressBar{options};
  }
  ProgressBar terminal(ProgressBarOptions options = {}) {
    options.terminal = true;
    options.columns = 78;
    return bar(options);
  }
};
/// A model that prints while bars are drawn, into the same terminal.
struct Talks {
  using Stateless = ByChoice;
  Stream* stream;
  void on_validation_batch_end() { std::fputs("validated a batch\n", stream->file); }
  void on_train_batch_end(auto& ctx) {
    if (ctx.batch_idx() == 2) std::fputs("trained three\n", stream->file);
  }
};
/// Looks at the screen after the bar has drawn.
struct Watcher {
  using Stateless = ByChoice;
  static constexpr Order order = Order::monitor;
  Stream* stream;
  Lines* seen;
  Lines* after;
  void on_validation_batch_end() { *seen = screen(stream->all()); }
  void on_validation_end() { *after = screen(stream->all()); }
};
struct SecondRank : SavingDevice {
  int rank() const { return 1; }
};
}  // namespace

TEST_CASE("bar: not a terminal: a line for each validation and each epoch, no control codes") {
  Place run;
  fitted(run.model, quick(2), 4, run.bar());
  CHECK(lines_of(run.stream.all()) ==
        Lines{"Validation DataLoader 0: 100%|██████████| 1/1 [00:00<00:00,  2.00it/s]",
              "Epoch 0: 100%|██████████| 4/4 [00:02<00:00,  1.60it/s, loss=1.500, vl=0.500]",
              "Validation DataLoader 0: 100%|██████████| 1/1 [00:00<00:00,  2.00it/s]",
              "Epoch 1: 100%|██████████| 4/4 [00:02<00:00,  1.60it/s, loss=1.500, vl=0.250]",
              "2 epochs, 8 steps in 00:05"});
}

TEST_CASE("bar: the last line tells what came out and where it is") {
  Place run;
  Folder const folder;
  auto options = quick(2);
  options.default_root_dir = folder.path;
  fitted(run.model, options, 4, CSVLogger{}, ModelCheckpoint{Scripted::vl}, run.bar());
  auto const root = folder.path.string() + "/lightning_logs/version_0/";
  CHECK(lines_of(run.stream.all()).back() == "2 epochs, 8 steps in 00:05; best vl 0.25 in epoch 1; best file " + root +
                                                 "checkpoints/epoch=1-step=8.safetensors; metrics " + root +
                                                 "metrics.csv");
}

TEST_CASE("bar: the last line names no file of rows where there was no row") {
  Place run;
  Folder const folder;
  auto options = quick(2);
  options.default_root_dir = folder.path;
  options.limit_val_batches = 0;
  options.log_every_n_steps = 0;
  fitted(run.model, options, 4, CSVLogger{}, run.bar());
  CHECK(lines_of(run.stream.all()).back() == "2 epochs, 8 steps in 00:04");
}

TEST_CASE("bar: the last line of a finished run that is started again names its file, and none that is gone") {
  Folder const folder;
  auto const last_line = [&](CkptPath const& from) {
    Place run;
    ScriptedTrainer<ModelCheckpoint<>, ProgressBar> trainer(quick(2), SavingDevice{}, Float32{}, Automatic{},
                                                            ModelCheckpoint{{.dirpath = folder.path}}, run.bar());
    said([&] { trainer.fit(run.model, toy::batches(4), toy::batches(1), from); });
    auto line = lines_of(run.stream.all()).back();
    CHECK(trainer.outcome().last_file.empty() == (line.find("file") == std::string::npos));
    return line;
  };
  auto const file = folder / "epoch=1-step=8.safetensors", moved = folder / "moved.safetensors";
  for (int start = 0; start != 2; ++start)
    CHECK(last_line(CkptPath{"last"}).find("; last file " + file.string()) != std::string::npos);
  std::filesystem::rename(file, moved);
  CHECK(last_line(CkptPath{moved}).find("file") == std::string::npos);
}

TEST_CASE("bar: a narrow terminal gets the last line in several, broken between words") {
  Place run;
  fitted(run.model, quick(2), 4, run.bar({.columns = 22, .terminal = true}));
  auto const output = run.stream.all();
  CHECK(output.ends_with("\n2 epochs, 8 steps in\n00:05\n"));
}

TEST_CASE("bar: an unsized loader has no end") {
  Place run;
  auto trainer = make_trainer<Scripted>(quick(1), SavingDevice{}, Float32{}, Automatic{}, run.bar());
  toy::Unsized train(5);
  trainer.fit(run.model, train, NoValidation{});
  CHECK(lines_of(run.stream.all())[0] == "Epoch 0: 5it [00:02,  2.00it/s, loss=2.000]");
}

TEST_CASE("bar: on a terminal the last epoch stays, the validation bar comes beneath it and goes") {
  Place run;
  fitted(run.model, quick(2), 4, run.terminal({.ascii = true}));
  auto const output = run.stream.all();
  CHECK(screen(output) == Lines{"Epoch 1: 100%|############| 4/4 [00:02<00:00,  1.60it/s, loss=1.500, vl=0.250]",
                                "2 epochs, 8 steps in 00:05", ""});
  auto const nested = output.find("\nValidation");
  CHECK(nested == std::string::npos);
  CHECK(count(output, "\n\x1b[KValidation DataLoader 0: 100%|") == 2);
}

TEST_CASE("bar: the screen during a validation") {
  Place run;
  Lines seen, after;
  fitted(run.model, quick(1), 4, run.terminal({.ascii = true}), Watcher{&run.stream, &seen, &after});
  REQUIRE(seen.size() == 4);  // between drawings the cursor stands in an empty line above the bars
  CHECK(seen[1].starts_with("Epoch 0: 100%|"));
  CHECK(seen[2].starts_with("Validation DataLoader 0: 100%|"));
  CHECK(after == Lines{"", seen[1], ""});
}

TEST_CASE("bar: a line that others print, also while two bars are there, stays as it is, above them") {
  Place run;
  fitted(run.model, quick(1), 4, run.terminal({.ascii = true}), Talks{.stream = &run.stream});
  auto const shown = screen(run.stream.all());
  REQUIRE(shown.size() == 5);
  CHECK(Lines(shown.begin(), shown.begin() + 2) == Lines{"trained three", "validated a batch"});
  CHECK(shown[2].starts_with("Epoch 0: 100%|"));
  CHECK(shown[3] == "1 epoch, 4 steps in 00:02");
}

TEST_CASE("bar: leave keeps each epoch's line") {
  Place run;
  fitted(run.model, quick(2), 4, run.terminal({.ascii = true, .leave = true}));
  auto const shown = screen(run.stream.all());
  REQUIRE(shown.size() == 4);
  CHECK(shown[0].starts_with("Epoch 0: 100%|"));
  CHECK(shown[1].starts_with("Epoch 1: 100%|"));
}

TEST_CASE("bar: at most ten redraws a second, one look at the clock a batch, no reading of a device") {
  Place run;
  run.model.seconds_per_batch = 0.001;
  toy::world.device_waits = true;
  toy::world.reads = 0;
  clock_looks = 0;
  auto options = quick(1);
  options.log_every_n_steps = 0;
  {
    auto trainer = make_trainer<Scripted>(options, SavingDevice{}, Float32{}, Automatic{}, run.terminal());
    trainer.fit(run.model, toy::batches(2000), NoValidation{});
  }
  auto const with_bar = clock_looks;
  auto const reads_with_bar = toy::world.reads;
  CHECK(count(run.stream.all(), "\x1b[KEpoch 0") <= 22);  // 2 s, the first and the last
  CHECK(count(run.stream.all(), "\x1b[KEpoch 0") >= 18);
  CHECK(run.stream.all().find("100%") != std::string::npos);
  clock_looks = 0;
  toy::world.reads = 0;
  Scripted again{.seconds_per_batch = 0.001};
  {
    auto trainer = make_trainer<Scripted>(options, SavingDevice{}, Float32{}, Automatic{});
    trainer.fit(again, toy::batches(2000), NoValidation{});
  }
  toy::world.device_waits = false;
  CHECK(with_bar - clock_looks <= 2005);
  CHECK(reads_with_bar == toy::world.reads);
}

TEST_CASE("bar: the sanity check is seen, and leaves nothing on a terminal") {
  auto options = quick(1);
  options.num_sanity_val_steps = 1;
  Place plain;
  fitted(plain.model, options, 2, plain.bar());
  CHECK(lines_of(plain.stream.all())[0] ==
        "Sanity Checking DataLoader 0: 100%|██████████| 1/1 [00:00<00:00,  2.00it/s]");
  Place run;
  fitted(run.model, options, 2, run.terminal());
  CHECK(count(run.stream.all(), "Sanity Checking") == 1);
  CHECK(screen(run.stream.all())[0].starts_with("Epoch 0"));
}

TEST_CASE("bar: an exception leaves the cursor on a new line") {
  Place run;
  run.model.fails_at = 2;
  CHECK(error_of([&] {
          fitted(run.model, quick(1), 4, run.terminal({.ascii = true}));
        }).starts_with("[fulgurite.test.step]"));
  auto const shown = screen(run.stream.all());
  REQUIRE(shown.size() == 2);
  CHECK(shown[0].starts_with("Epoch 0:  50%|"));
  CHECK(shown[1].empty());
}

TEST_CASE("bar: validate, on its own") {
  Place run;
  auto trainer = make_trainer<Scripted>(quick(1), SavingDevice{}, Float32{}, Automatic{}, run.bar());
  trainer.validate(run.model, toy::batches(3));
  CHECK(lines_of(run.stream.all()) ==
        Lines{"Validation DataLoader 0: 100%|██████████| 3/3 [00:01<00:00,  2.00it/s, vl=0.500]"});
  Place screened;
  auto other =
      make_trainer<Scripted>(quick(1), SavingDevice{}, Float32{}, Automatic{}, screened.terminal({.ascii = true}));
  other.validate(screened.model, toy::batches(3));
  auto const shown = screen(screened.stream.all());
  CHECK(shown.size() == 2);
  CHECK(shown[0].starts_with("Validation DataLoader 0: 100%|"));
}

TEST_CASE("bar: only rank 0 writes") {
  Place run;
  auto trainer = make_trainer<Scripted>(quick(1), SecondRank{}, Float32{}, Automatic{}, run.terminal());
  trainer.fit(run.model, toy::batches(3), toy::batches(1));
  CHECK(run.stream.all().empty());
}

TEST_CASE("bar: a run that goes on inside an epoch has a bar, whose rates count what this process did") {
  probe::Folder const folder;
  {
    Place first;
    first.model.fails_at = 6;
    CHECK(error_of([&] { fitted(first.model, quick(3), 4, OnExceptionCheckpoint{{.dirpath = folder.path}}); }) != "");
  }
  Place run;
  fitted(run.model, quick(3), 4, OnExceptionCheckpoint{{.dirpath = folder.path}},
         run.terminal({.ascii = true, .leave = true}));
  CHECK(screen(run.stream.all()) ==
        Lines{"Epoch 1: 100%|############| 4/4 [00:01<00:00,  1.33it/s, loss=1.500, vl=0.250]",
              "Epoch 2: 100%|############| 4/4 [00:02<00:00,  1.60it/s, loss=1.500, vl=0.250]",
              "2 epochs, 6 steps in 00:04", ""});
}

TEST_CASE("bar: in a file a long epoch and a long validation have a line a minute, with figures and no control codes") {
  Place run;
  run.model.seconds_per_batch = 25;
  auto trainer = make_trainer<Scripted>(quick(1), SavingDevice{}, Float32{}, Automatic{}, run.bar());
  trainer.fit(run.model, toy::batches(7), toy::batches(4));
  auto const output = run.stream.all();
  CHECK(output.find_first_of("\r\x1b") == std::string::npos);
  Lines begin;
  for (auto const& line : lines_of(output)) begin.push_back(line.substr(0, line.find('|')));
  CHECK(begin == Lines{"Epoch 0:  43%", "Epoch 0:  86%", "Validation DataLoader 0:  75%",
                       "Validation DataLoader 0: 100%", "Epoch 0: 100%", "1 epoch, 7 steps in 04:35"});
}

namespace {
struct Terminal {  // the two ends of one
  int master = ::posix_openpt(O_RDWR | O_NOCTTY);
  std::FILE* stream = nullptr;
  Terminal() {
    REQUIRE(::grantpt(master) == 0);
    REQUIRE(::unlockpt(master) == 0);
    stream = ::fdopen(::open(::ptsname(master), O_RDWR | O_NOCTTY), "w");
    REQUIRE(stream != nullptr);
  }
  ~Terminal() {
    std::fclose(stream);
    ::close(master);
  }
  void width(unsigned short columns) const {
    winsize const size{.ws_row = 25, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    ::ioctl(master, TIOCSWINSZ, &size);
  }
  /// What was drawn last, without the codes. A drawing ends by moving the cursor up, and may be read in pieces.
  std::string take() const {
    std::string all;
    while (!all.ends_with('A')) {
      char text[4096];
      auto const count = ::read(master, text, sizeof text);
      if (count <= 0) break;
      all.append(text, static_cast<std::size_t>(count));
    }
    auto const begin = all.rfind('K') + 1;
    return all.substr(begin, all.find_first_of("\r\n", begin) - begin);
  }
};
struct Resizes {
  using Stateless = ByChoice;
  static constexpr Order order = Order::monitor;
  Terminal const* terminal;
  std::vector<std::size_t>* widths;
  void on_train_batch_end(auto& ctx) {
    auto const text = terminal->take();
    if (text.starts_with("Epoch 0:")) widths->push_back(report::display_width(text));
    terminal->width(ctx.batch_idx() == 0 ? 120 : ctx.batch_idx() == 1 ? 60 : 0);
  }
};
}  // namespace

TEST_CASE("bar: a terminal is asked for its width at each redraw, and one that is dumb is none") {
  Terminal const terminal;
  std::vector<std::size_t> widths;
  terminal.width(200);
  Place run;
  auto trainer = make_trainer<Scripted>(quick(1), SavingDevice{}, Float32{}, Automatic{},
                                        ProgressBar{{.stream = terminal.stream}}, Resizes{&terminal, &widths});
  trainer.fit(run.model, toy::batches(4), NoValidation{});
  CHECK(widths == std::vector<std::size_t>{200, 120, 60, 80});
  std::string const kind = std::getenv("TERM") == nullptr ? "" : std::getenv("TERM");
  ::setenv("TERM", "dumb", 1);
  CHECK_FALSE(report::is_terminal(terminal.stream));
  ::setenv("TERM", "xterm", 1);
  CHECK(report::is_terminal(terminal.stream));
  kind.empty() ? ::unsetenv("TERM") : ::setenv("TERM", kind.c_str(), 1);
}

namespace {
/// The lines of each batch of a fit with these options on so many batches, from "Epoch" on, and the totals of them.
Lines drawn(TrainerOptions const& options, int batches, Automatic const& how = {}) {
  Place run;
  auto trainer = make_trainer<Scripted>(options, SavingDevice{}, Float32{}, how,
                                        run.bar({.leave = true, .seconds_between_lines = 0.1}));
  trainer.fit(run.model, toy::batches(batches), NoValidation{});
  Lines all;
  for (auto const& line : lines_of(run.stream.all()))
    if (line.starts_with("Epoch")) all.push_back(line);
  return all;
}
std::string between(std::string const& line, std::string const& from, std::string const& to) {
  auto const begin = line.rfind(from) + from.size();
  return line.substr(begin, line.find(to, begin) - begin);
}
Lines totals(Lines const& lines) {
  Lines all;
  for (auto const& line : lines) all.push_back(between(line, "| ", " ["));
  return all;
}
}  // namespace

TEST_CASE("bar: its total and its end are those of the run, whichever limit ends it") {
  auto options = quick(4);
  options.max_steps = 3;
  CHECK(totals(drawn(options, 100)) == Lines{"1/3", "2/3", "3/3", "3/3"});
  CHECK(between(drawn(options, 100).front(), "<", ",") == "00:01");
  CHECK(totals(drawn(options, 2)) == Lines{"1/2", "2/2", "2/2", "1/1", "1/1"});
  CHECK(totals(drawn(options, 100, {.accumulate_grad_batches = 2})).front() == "1/6");
  CHECK(totals(drawn(options, 100, {.accumulate_grad_batches = 2})).back() == "6/6");
  CHECK(totals(drawn(options, 5, {.accumulate_grad_batches = 2})).front() == "1/5");
  options.limit_train_batches = Batches{2};
  CHECK(totals(drawn(options, 100)).front() == "1/2");
  options.max_steps = std::numeric_limits<long>::max();
  CHECK(totals(drawn(options, 100, {.accumulate_grad_batches = 2})).front() == "1/2");

  auto timed = quick(1);
  timed.max_time = Seconds{5};
  CHECK(between(drawn(timed, 100).front(), "<", ",") == "00:04");
  CHECK(totals(drawn(timed, 100)).front() == "1/100");
  timed.min_steps = 100;  // time alone ends nothing before
  CHECK(between(drawn(timed, 100).front(), "<", ",") == "00:49");
}

TEST_CASE("bar: of an unsized loader the end is known where max_steps ends it") {
  Place run;
  auto options = quick(1);
  options.max_steps = 3;
  auto trainer = make_trainer<Scripted>(options, SavingDevice{}, Float32{}, Automatic{}, run.bar());
  toy::Unsized train(50);
  trainer.fit(run.model, train, NoValidation{});
  CHECK(lines_of(run.stream.all())[0].starts_with("Epoch 0: 100%|██████████| 3/3 ["));
}

TEST_CASE("bar: evaluations announce what their limits leave, and the sanity check its few batches") {
  Place run;
  auto options = quick(1);
  options.limit_val_batches = Batches{3};
  options.num_sanity_val_steps = 2;
  auto trainer =
      make_trainer<Scripted>(options, SavingDevice{}, Float32{}, Automatic{}, run.bar({.seconds_between_lines = 0.1}));
  trainer.fit(run.model, toy::batches(4), toy::batches(10));
  Lines validated, sane;
  for (auto const& line : lines_of(run.stream.all())) {
    if (line.starts_with("Validation")) validated.push_back(between(line, "| ", " ["));
    if (line.starts_with("Sanity")) sane.push_back(between(line, "| ", " ["));
  }
  REQUIRE(!validated.empty());
  REQUIRE(!sane.empty());
  CHECK(validated.front() == "1/3");
  CHECK(sane.front() == "1/2");
}

TEST_CASE("bar: the metric that is watched stays where there is no room for the others, however it is watched") {
  auto const shown = [](auto watcher) {
    Place run;
    Folder const folder;
    auto options = quick(2);
    options.default_root_dir = folder.path;
    auto narrow = run.bar({.leave = true, .columns = 62});
    fitted(run.model, options, 4, std::move(watcher), std::move(narrow));
    auto const lines = lines_of(run.stream.all());
    return std::ranges::count_if(lines, [](auto const& line) {
      return line.starts_with("Epoch 1") && line.find("vl=0.250") != std::string::npos;
    });
  };
  CHECK(shown(ModelCheckpoint{Scripted::vl}) == 1);
  CHECK(shown(ModelCheckpoint{Scripted::vl.last()}) == 1);
  CHECK(shown(EarlyStopping{Scripted::vl.last()}) == 1);
}
