// What a program prints while a bar or a dashboard is drawn, as a terminal shows it.
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <sstream>
#include <streambuf>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fulgurite/callback/dashboard.hpp>
#include <fulgurite/callback/progress_bar.hpp>

#include "callback_run.hpp"
#include "callback_stream.hpp"

using namespace fulgurite;
using Lines = std::vector<std::string>;

namespace {
/// Writes to a FILE: what a standard stream does unless somebody has put another buffer there, as a reporter of Catch2
/// does to have what a test prints.
class ToFile : public std::streambuf {
 public:
  explicit ToFile(std::FILE* file) : file_(file) {}

 protected:
  int_type overflow(int_type c) override { return std::fputc(traits_type::to_char_type(c), file_); }
  std::streamsize xsputn(char const* text, std::streamsize size) override {
    return static_cast<std::streamsize>(std::fwrite(text, 1, static_cast<std::size_t>(size), file_));
  }
  int sync() override { return std::fflush(file_); }

 private:
  std::FILE* file_;
};

/// A terminal in the place of stdout and stderr, and all that was written to it.
class OnTerminal {
 public:
  explicit OnTerminal(unsigned short columns) {
    master_ = ::posix_openpt(O_RDWR | O_NOCTTY);
    REQUIRE(::grantpt(master_) == 0);
    REQUIRE(::unlockpt(master_) == 0);
    int const slave = ::open(::ptsname(master_), O_RDWR | O_NOCTTY);
    winsize const size{.ws_row = 25, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    ::ioctl(master_, TIOCSWINSZ, &size);
    kind_ = std::getenv("TERM") == nullptr ? "" : std::getenv("TERM");
    ::setenv("TERM", "xterm", 1);
    flush();
    for (int const standard : {1, 2}) {
      before_.push_back(::dup(standard));
      ::dup2(slave, standard);
    }
    ::close(slave);
    for (auto& [stream, buffer] : streams_) buffer = stream->rdbuf(buffer);
    reader_ = std::thread([this] {
      char text[4096];
      for (ssize_t got = 0; (got = ::read(master_, text, sizeof text)) > 0;) {
        std::lock_guard const lock(mutex_);
        all_.append(text, static_cast<std::size_t>(got));
      }
    });
  }
  /// Puts the former streams back, and tells what was written.
  std::string end() {
    if (!reader_.joinable()) return all_;
    flush();
    for (auto& [stream, buffer] : streams_) buffer = stream->rdbuf(buffer);
    for (int const standard : {1, 2}) {
      ::dup2(before_[static_cast<std::size_t>(standard - 1)], standard);
      ::close(before_[static_cast<std::size_t>(standard - 1)]);
    }
    reader_.join();  // nobody has the other end open: reading ends
    ::close(master_);
    kind_.empty() ? ::unsetenv("TERM") : ::setenv("TERM", kind_.c_str(), 1);
    return all_;
  }
  ~OnTerminal() { end(); }

 private:
  static void flush() {
    std::cout.flush();
    std::fflush(stdout);
    std::fflush(stderr);
  }
  int master_ = -1;
  std::vector<int> before_{};
  ToFile out_{stdout}, err_{stderr};
  std::array<std::pair<std::ostream*, std::streambuf*>, 3> streams_{
      {{&std::cout, &out_}, {&std::cerr, &err_}, {&std::clog, &err_}}};  ///< the buffers that they have not now
  std::string kind_{}, all_{};
  std::mutex mutex_{};
  std::thread reader_{};
};

/// Prints in every way there is.
struct Prints {
  using Stateless = ByChoice;
  void on_train_batch_end(auto& ctx) {
    switch (ctx.batch_idx()) {
    case 0: std::cout << "before the bar\n"; break;
    case 1: std::cout << "one\ntwo\n" << "three" << std::endl; break;
    case 2: std::cerr << "a warning of " << 2 << " lines,\nin pieces\n"; break;
    case 3: std::clog << std::string(95, 'x') << '\n'; break;
    case 4: ctx.print("printed\nby the context, in a line that is longer than the terminal is wide"); break;
    case 5: ctx.warn("test.above", "a sentence that takes more than one line of this terminal"); break;
    case 6: std::cout << "begun" << std::flush; break;
    case 7: std::cout << ", ended\n\x1b[31mcoloured\x1b[0m\n"; break;
    default: std::cout << "without an end";
    }
  }
};
Lines const printed{"before the bar",
                    "one",
                    "two",
                    "three",
                    "a warning of 2 lines,",
                    "in pieces",
                    std::string(40, 'x'),
                    std::string(40, 'x'),
                    std::string(15, 'x'),
                    "printed",
                    "by the context, in a line that is longer",
                    " than the terminal is wide",
                    "warning: [test.above] a sentence that ta",
                    "kes more than one line of this terminal",
                    "begun, ended",
                    "coloured"};

Lines lines_from(Lines const& all, std::size_t first) {
  return {all.begin() + static_cast<std::ptrdiff_t>(std::min(first, all.size())), all.end()};
}
/// The lines of others, which come first.
Lines of_others(Lines const& all) {
  return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(std::min(printed.size(), all.size()))};
}
template <class... Cs>
std::string shown(unsigned short columns, int batches, Cs... callbacks) {
  OnTerminal terminal(columns);
  fake_seconds = 0;
  Scripted model{.script = {0.5}, .seconds_per_batch = 1};
  fitted(model, quick(1), batches, std::move(callbacks)...);
  return terminal.end();
}

/// What becomes of the standard streams.
struct Watches {
  using Stateless = ByChoice;
  static constexpr Order order = Order::monitor;
  std::vector<bool>* taken;
  std::streambuf* usual = nullptr;
  void on_fit_start() { usual = std::cout.rdbuf(); }
  void on_train_batch_end() { taken->push_back(std::cout.rdbuf() != usual); }
};
}  // namespace

TEST_CASE("above a bar: whatever others print stands there as it is, and below it is one bar") {
  auto const all = screen(shown(40, 9, Prints{}, ProgressBar{{.ascii = true, .terminal = true}}), 40);
  CHECK(of_others(all) == printed);
  auto const below = lines_from(all, printed.size());
  REQUIRE(below.size() == 3);
  CHECK(below[0].starts_with("Epoch 0: 100%|"));
  CHECK(below[1] == "without an end1 epoch, 9 steps in 00:10");
}

TEST_CASE("above a bar: a line without an end is seen as soon as it is flushed, and its end later") {
  auto const output = shown(40, 9, Prints{}, ProgressBar{{.ascii = true, .terminal = true}});
  auto const at = output.find("begun");
  REQUIRE(at != std::string::npos);
  auto const then = screen(std::string_view(output).substr(0, at + 5), 40);
  REQUIRE(then.size() > 3);
  CHECK(then[then.size() - 3] == "begun");  // the bar below it, where the cursor was last, and an empty line
  CHECK(then[then.size() - 2].starts_with("Epoch 0: "));
}

TEST_CASE("above a dashboard: whatever others print stands there as it is, and below it is one dashboard") {
  auto const all = screen(shown(40, 9, Prints{}, Dashboard{{.terminal = true, .glyphs = report::Glyphs::ascii}}), 40);
  CHECK(of_others(all) == printed);
  auto const below = lines_from(all, printed.size());
  CHECK(std::ranges::count_if(below, [](auto const& line) { return line.starts_with("Scripted  epoch"); }) == 1);
  CHECK(below.front().starts_with("Scripted  epoch"));
}

TEST_CASE("above a bar: the streams are taken while it is drawn, and given back") {
  auto* const usual = std::cout.rdbuf();
  std::vector<bool> taken;
  shown(80, 2, ProgressBar{{.terminal = true}}, Watches{.taken = &taken});
  CHECK(taken == std::vector<bool>{true, true});
  CHECK(std::cout.rdbuf() == usual);
  taken.clear();
  shown(80, 2, ProgressBar{{.terminal = true, .redirect = false}}, Watches{.taken = &taken});
  CHECK(taken == std::vector<bool>{false, false});
  taken.clear();
  {
    OnTerminal terminal(80);
    Scripted model{.script = {0.5}, .seconds_per_batch = 1, .fails_at = 2};
    CHECK_THROWS_AS(fitted(model, quick(1), 4, ProgressBar{{.terminal = true}}, Watches{.taken = &taken}), Error);
  }
  CHECK(taken == std::vector<bool>{true, true});
  CHECK(std::cout.rdbuf() == usual);
  // Output that goes elsewhere than to the bar's terminal is left alone, and so is a bar in a file.
  taken.clear();
  Stream stream;
  Scripted model{.script = {0.5}, .seconds_per_batch = 1};
  fitted(model, quick(1), 2, ProgressBar{{.stream = stream.file, .terminal = true}}, Watches{.taken = &taken});
  CHECK(taken == std::vector<bool>{false, false});
}

TEST_CASE("above a bar: somebody else's buffer that was put before ours stays, and one behind it is written to") {
  std::ostringstream behind, before;
  bool stays = false;
  std::string const output = [&] {
    OnTerminal terminal(80);
    auto* const usual = std::cout.rdbuf(behind.rdbuf());
    {
      report::BlockOfLines lines(stderr);
      lines.show({"bar"});
      std::cout << "to the one behind\nheld";
      std::cout.rdbuf(before.rdbuf());
      std::cout << "to the one before";
    }
    stays = std::cout.rdbuf() == before.rdbuf();  // asked here: CHECK may put buffers of its own there
    std::cout.rdbuf(usual);
    return terminal.end();
  }();
  CHECK(stays);
  CHECK(behind.str() == "to the one behind\nheld");
  CHECK(before.str() == "to the one before");
  CHECK(output.find("to the one") == std::string::npos);
}

TEST_CASE("above a bar: threads that print at the same time break no line") {
  auto const all = [] {
    OnTerminal terminal(80);
    report::BlockOfLines lines(stderr);
    lines.show({"bar"});
    std::vector<std::thread> threads;
    for (int t = 0; t != 3; ++t)
      threads.emplace_back([t] {
        for (int i = 0; i != 50; ++i) std::cerr << "thread " + std::to_string(t) + " says this\n";
      });
    for (int i = 0; i != 50; ++i) lines.show({"bar " + std::to_string(i)});
    for (auto& thread : threads) thread.join();
    lines.leave();
    return screen(terminal.end(), 80);
  }();
  CHECK(std::ranges::count_if(all, [](auto const& line) { return line.ends_with(" says this"); }) == 150);
  CHECK(all.size() == 152);
  CHECK(all[150] == "bar 49");
}
