// The lines, tables and numbers that a person reads.
#include <fulgurite/callback/dashboard.hpp>
#include <fulgurite/callback/progress_bar.hpp>
#include <fulgurite/report/progress_line.hpp>
#include <fulgurite/report/terminal.hpp>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <optional>

#include "callback_stream.hpp"

using namespace fulgurite::report;

TEST_CASE("a formatted number is printf's, to the character, with a point in every locale") {
  using Limits = std::numeric_limits<double>;
  for (char const* const format : {"%g", "%.0f", "%.1f", "%.2f", "%5.2f", "%3.0f", "%.3g", "%.4g", "%.6g", "%.9g",
                                   "%12g", "%f", "%e", "%.3E", "%.2F", "%.7G", "%.40f", "from %g to it"})
    for (double const value :
         {0.0, -0.0, 0.5, 2.5, 12.345, 99.9999999, 123456.789, 1e6, -1e-5, 1.0 / 3, 1e20, Limits::max(),
          Limits::denorm_min(), Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN()}) {
      std::array<char, 500> printed{};
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
      std::snprintf(printed.data(), printed.size(), format, value);
#pragma GCC diagnostic pop
      CHECK(formatted(format, value) == printed.data());
    }
}

TEST_CASE("a progress line is tqdm's, character for character") {
  ProgressLine const line{"Epoch 3", 225, 500, 12.49, 18.02, "train/loss=0.123"};
  CHECK(progress_line(line) == "Epoch 3:  45%|████▌     | 225/500 [00:12<00:15, 18.02it/s, train/loss=0.123]");
  CHECK(progress_line(line, 0, true) == "Epoch 3:  45%|####5     | 225/500 [00:12<00:15, 18.02it/s, train/loss=0.123]");
  CHECK(progress_line({"", 0, 4}) == "  0%|          | 0/4 [00:00<?, ?it/s]");
  CHECK(progress_line({"a", 4, 4, 8, 0.5, {}}) == "a: 100%|██████████| 4/4 [00:08<00:00,  2.00s/it]");
  CHECK(progress_line({"a", 1, 3, 0.2, 5, {}}) == "a:  33%|███▎      | 1/3 [00:00<00:00,  5.00it/s]");
  CHECK(progress_line({"a", 7, std::nullopt, 3725, 18.02, {}}) == "a: 7it [1:02:05, 18.02it/s]");
  CHECK(progress_line({"a", 7, 6, 1, 7, {}}) == "a: 7it [00:01,  7.00it/s]");  // more than announced
  CHECK(progress_line({"a", 0, 0, 1, {}, {}}) == "a: 0it [00:01, ?it/s]");
  CHECK(progress_line({"a", 2, 10, 1, 1234.567, {}}) == "a:  20%|██        | 2/10 [00:01<00:00, 1234.57it/s]");
}

TEST_CASE("a progress line fits its columns") {
  ProgressLine const line{"Epoch 3", 225, 500, 12.49, 18.02, "train/loss=0.123"};
  CHECK(progress_line(line, 80) == "Epoch 3:  45%|██████▎       | 225/500 [00:12<00:15, 18.02it/s, train/loss=0.123]");
  for (int columns = 1; columns != 200; ++columns) {
    INFO(columns);
    auto const width = display_width(progress_line(line, columns));
    CHECK(width <= static_cast<std::size_t>(columns));
    if (columns >= 24) CHECK(width == static_cast<std::size_t>(columns));
  }
  CHECK(progress_line(line, 48) == "Epoch 3:  45%|████▉      | 225/500 [00:12<00:15]");
  // The metric that is watched stays longer than the others, and than the rate.
  ProgressLine watched{"Epoch 3", 225, 500, 12.4, 18.02, "loss=0.123, val=0.500, other=1.000", "val=0.500"};
  CHECK(progress_line(watched, 90) ==
        "Epoch 3:  45%|██▋   | 225/500 [00:12<00:15, 18.02it/s, loss=0.123, val=0.500, other=1.000]");
  CHECK(progress_line(watched, 80) ==
        "Epoch 3:  45%|█▊  | 225/500 [00:12<00:15, 18.02it/s, loss=0.123, val=0.500, ...]");
  CHECK(progress_line(watched, 64) == "Epoch 3:  45%|██▎  | 225/500 [00:12<00:15, 18.02it/s, val=0.500]");
  CHECK(progress_line(watched, 52) == "Epoch 3:  45%|█▊  | 225/500 [00:12<00:15, val=0.500]");
  CHECK(progress_line(watched, 46) == "Epoch 3:  45%|████     | 225/500 [00:12<00:15]");
  for (int columns = 1; columns != 120; ++columns) {
    auto const at = progress_line(watched, columns);
    CHECK(display_width(at) <= static_cast<std::size_t>(columns));
    if (at.find("it/s") != std::string::npos || at.find("loss") != std::string::npos)
      CHECK(at.find("val=0.500") != std::string::npos);
  }
  ProgressLine ends{"a", 10, 100, 1, 10, {}, {}, 2.0};  // a limit of time comes before the last item
  CHECK(progress_line(ends) == "a:  10%|█         | 10/100 [00:01<00:02, 10.00it/s]");
  ends.seconds_left = -1;
  CHECK(progress_line(ends) == "a:  10%|█         | 10/100 [00:01<00:00, 10.00it/s]");
  CHECK(progress_line(line, 30) == "Epoch 3:  45%|███▏   | 225/500");
  CHECK(progress_line(line, 20) == "Epoch 3:  45%");
  CHECK(progress_line(line, 10) == "Epoch  45%");
  CHECK(progress_line(line, 5) == " 45%");
  CHECK(progress_line({"a", 7, std::nullopt, 1, 7, {}}, 10) == "a: 7it");
}

TEST_CASE("values in a bar keep their width") {
  CHECK(short_value(0.1234) == "0.123");
  CHECK(short_value(0.1) == "0.100");
  CHECK(short_value(2) == "2.000");
  CHECK(short_value(0) == "0.000");
  CHECK(short_value(-1.5) == "-1.50");
  CHECK(short_value(123.4) == "123.0");
  CHECK(short_value(1e-5) == "1e-5");
  CHECK(short_value(1234567) == "1.23e+6");
  CHECK(short_value(NAN) == "nan");
  CHECK(short_value(INFINITY) == "inf");
}

TEST_CASE("the rate is a moving average while it runs, the mean at the end") {
  ProgressMeter meter("a", 100, 0.0);
  meter.advance(10, 1.0);
  CHECK(meter.running({}, 0, true) == "a:  10%|#         | 10/100 [00:01<00:09, 10.00it/s]");
  meter.advance(40, 2.0);
  // (0.3 * 30 + 0.7 * 0.3 * 10) / (0.3 + 0.7 * 0.3) = 21.76
  CHECK(meter.running({}, 0, true) == "a:  40%|####      | 40/100 [00:02<00:02, 21.76it/s]");
  CHECK(meter.finished({}, 0, true) == "a:  40%|####      | 40/100 [00:02<00:03, 20.00it/s]");
  ProgressMeter resumed("a", 100, 0.0);
  resumed.start_at(90);  // by an earlier process
  resumed.advance(91, 1.0);
  CHECK(resumed.finished({}, 0, true) == "a:  91%|#########1| 91/100 [00:01<00:09,  1.00it/s]");
}

TEST_CASE("numbers for people") {
  CHECK(count_text(0) == "0");
  CHECK(count_text(999) == "999");
  CHECK(count_text(1234) == "1.2 K");
  CHECK(count_text(203530) == "203 K");
  CHECK(count_text(7'000'000'000) == "7.0 B");
  CHECK(count_text(9'000'000'000'000'000) == "9000 T");
  CHECK(bytes_text(814120) == "814.1 kB");
  CHECK(bytes_text(12) == "12 B");
  CHECK(clock_text(59.9) == "00:59");
  CHECK(clock_text(360000) == "100:00:00");
  CHECK(clipped("aäb", 2) == "aä");
  CHECK(display_width("aäb▌") == 4);
}

TEST_CASE("numbers for programs read back exactly") {
  for (double const value : {0.1 + 0.2, 1e300, -0.0, std::numeric_limits<double>::denorm_min()})
    CHECK(std::strtod(fulgurite::exact_number(value).c_str(), nullptr) == value);
}

TEST_CASE("the table of a model") {
  std::vector<ModelRow> const rows{{"", "Mlp", 203530, 203530, 814120, true},
                                   {"body", "Sequential", 203530, 200960, 814120, true},
                                   {"head.frozen", "Linear", 2570, 0, 10280, false},
                                   {"act", "ReLU", 0, 0, 0, true}};
  CHECK(model_table(rows) == "  | Name        | Type       | Params | Trainable | Size     | Mode \n"
                             "--------------------------------------------------------------------\n"
                             "0 | body        | Sequential | 203 K  | 200 K     | 814.1 kB | train\n"
                             "1 | head.frozen | Linear     | 2.6 K  | frozen    | 10.3 kB  | eval \n"
                             "2 | act         | ReLU       | 0      | -         | 0 B      | train\n"
                             "--------------------------------------------------------------------\n"
                             "203 K     Trainable params\n"
                             "0         Non-trainable params\n"
                             "203 K     Total params\n"
                             "814.1 kB  Total size of parameters and buffers\n");
  CHECK(model_table({}).empty());
}

TEST_CASE("the last line of a fit") {
  fulgurite::Outcome outcome;
  CHECK(outcome_line(outcome, 1, 630, 22.4) == "1 epoch, 630 steps in 00:22");
  outcome.ended_by = "max_epochs = 1";
  CHECK(outcome_line(outcome, 1, 630, 22.4) == "1 epoch, 630 steps in 00:22");
  outcome.ended_by = "EarlyStopping: vl = 4 has not improved on 3 for 5 checks";
  CHECK(outcome_line(outcome, 1, 630, 22.4) ==
        "1 epoch, 630 steps in 00:22; ended by EarlyStopping: vl = 4 has not improved on 3 for 5 checks");
  outcome.ended_by.clear();
  outcome.best_metric = "val/accuracy";
  outcome.best_value = 0.98312;
  outcome.best_epoch = 7;
  outcome.best_file = "runs/a.safetensors";
  outcome.last_file = "runs/last.safetensors";
  outcome.metrics_file = "lightning_logs/version_0/metrics.csv";
  CHECK(outcome_line(outcome, 10, 630, 22.4) == "10 epochs, 630 steps in 00:22; best val/accuracy 0.9831 in epoch 7; "
                                                "best file runs/a.safetensors; last file runs/last.safetensors; "
                                                "metrics lightning_logs/version_0/metrics.csv");
  outcome.last_file = outcome.best_file;
  outcome.metrics_file.clear();
  CHECK(outcome_line(outcome, 10, 630, 22.4) ==
        "10 epochs, 630 steps in 00:22; best val/accuracy 0.9831 in epoch 7; best file runs/a.safetensors");
}

TEST_CASE("lines of a terminal, written over and over") {
  Stream stream;
  BlockOfLines lines(stream.file);
  lines.show({"one"});
  CHECK(stream.take() == "\r\x1b[K\n\x1b[Kone\n\x1b[J\x1b[2A");
  lines.show({"one", "two"});
  CHECK(stream.take() == "\r\x1b[K\n\x1b[Kone\n\x1b[Ktwo\n\x1b[J\x1b[3A");
  lines.shorten(1);
  CHECK(stream.take() == "\r\x1b[K\n\x1b[Kone\n\x1b[J\x1b[2A");
  lines.shorten(1);
  CHECK(stream.take().empty());
  // A line that others print between two drawings stays, and nothing of ours is left in it or above it.
  lines.show({"one", "two"});
  std::fputs("somebody\n", stream.file);
  lines.show({"three", "four"});
  std::fputs("else\n", stream.file);
  CHECK(screen(stream.all()) == std::vector<std::string>{"somebody", "else", "three", "four", ""});
  lines.show({"five"});
  CHECK(screen(stream.all()) == std::vector<std::string>{"somebody", "else", "", "five", ""});
  lines.keep("done");
  CHECK(screen(stream.all()) == std::vector<std::string>{"somebody", "else", "done", ""});
  stream.take();
  lines.leave();
  CHECK(stream.take().empty());
  lines.show({"a", "b"});
  lines.leave();
  CHECK(screen(stream.all()) == std::vector<std::string>{"somebody", "else", "done", "a", "b", ""});
  lines.show({"a", "b"});
  lines.wipe();
  CHECK(screen(stream.all()) == std::vector<std::string>{"somebody", "else", "done", "a", "b", ""});
}

TEST_CASE("what is told while lines are drawn comes out above them, of one block at a time") {
  Stream stream, other;
  {
    BlockOfLines lines(stream.file), second(other.file);
    lines.show({"a", "b"});
    second.show({"c"});  // another terminal, or a second bar: drawn, and nothing makes room for it
    fulgurite::print_lines(stream.file, "one\ntwo\nthree\n");
    fulgurite::print_lines(other.file, "plain\n");
    CHECK(screen(stream.all()) == std::vector<std::string>{"one", "two", "three", "", "a", "b", ""});
    auto copy = lines;
    copy.leave();  // it has drawn nothing
    auto moved = std::move(lines);
    fulgurite::print_lines(stream.file, "four\n");
    CHECK(screen(stream.all()) == std::vector<std::string>{"one", "two", "three", "four", "", "a", "b", ""});
  }
  // One that goes out of scope leaves its lines, and what is told then begins below.
  fulgurite::print_lines(stream.file, "five\n");
  CHECK(screen(stream.all()) == std::vector<std::string>{"one", "two", "three", "four", "a", "b", "five", ""});
  CHECK(fulgurite::writes_above.load() == nullptr);
}

TEST_CASE("facts of a dashboard: those that find no room are left out, and no blanks are left before the dots") {
  CHECK(dashboard::facts_within("loss 1.5   acc 0.25", 40) == "loss 1.5   acc 0.25");
  CHECK(dashboard::facts_within("loss 1.5   acc 0.25", 17) == "loss 1.5   ...");
  for (std::size_t columns = 0; columns != 30; ++columns) {
    INFO(columns);
    auto const text = dashboard::facts_within("a 1   b 2    c 3      d 4", columns);
    CHECK(display_width(text) <= columns);
    CHECK(text.find("    ...") == std::string::npos);
    CHECK_FALSE(text.ends_with(' '));
  }
}

TEST_CASE("a table of columns goes on in a further one where it would be too wide, and cuts no value") {
  std::vector<std::vector<std::string>> const columns{{"Test metric", "a/very/long/name/of/a/metric/accuracy"},
                                                      {"first", "0.123456"},
                                                      {"second", "-1.23456e-10"},
                                                      {"third", "nan"}};
  auto const whole = tables_of(columns, 0);
  CHECK(whole.starts_with("Test metric                           | first    | second       | third\n"));
  CHECK(tables_of(columns, 73) == whole);
  CHECK(tables_of(columns, 40)
            .starts_with("Test metric                   | first   \n"
                         "----------------------------------------\n"
                         "…ng/name/of/a/metric/accuracy | 0.123456\n"
                         "----------------------------------------\n"
                         "Test metric               | second      \n"));
}
