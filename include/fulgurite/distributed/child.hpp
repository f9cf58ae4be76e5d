#pragma once
// One more process of this very program, whose output comes through pipes.

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fulgurite/core/error.hpp>

namespace fulgurite::distributed {

/// This program with the same arguments. It is killed when the thread that started it ends, so that no process is left
/// over where this one is killed.
class Child {
 public:
  /// `variables`: "NAME=value", in place of those of the same names here.
  Child(int rank, std::vector<std::string> const& variables) : rank_(rank) {
    auto const words = own_arguments();
    auto const settings = environment(variables);
    auto const argv = pointers(words), envp = pointers(settings);
    auto const out = a_pipe(), error = a_pipe();
    pid_t const parent = ::getpid();
    pid_ = ::fork();
    if (pid_ == 0) {  // only calls that are safe beside other threads
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(126);
      ::dup2(::open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
      ::dup2(out[1], STDOUT_FILENO);
      ::dup2(error[1], STDERR_FILENO);
      ::execve("/proc/self/exe", argv.data(), envp.data());
      ::_exit(127);
    }
    int const problem = errno;
    ::close(out[1]);
    ::close(error[1]);
    pipes_ = {Pipe{out[0], STDOUT_FILENO}, Pipe{error[0], STDERR_FILENO}};
    if (pid_ < 0) refuse("fork", problem);
  }
  Child(Child const&) = delete;
  Child& operator=(Child const&) = delete;
  Child(Child&& other) noexcept
      : rank_(other.rank_),
        pid_(std::exchange(other.pid_, -1)),
        pipes_(std::exchange(other.pipes_, {})),
        ended_(std::exchange(other.ended_, std::nullopt)) {}
  ~Child() {
    for (auto& pipe : pipes_)
      if (pipe.from >= 0) ::close(pipe.from);
  }

  int rank() const { return rank_; }
  /// What is to be polled; -1 where it is closed.
  std::array<int, 2> outputs() const { return {pipes_[0].from, pipes_[1].from}; }

  /// Hands on whole lines of what has come, each after "[rank 1] ". `silent`: what it wrote to stdout is dropped.
  void pass_on(bool silent) {
    for (auto& pipe : pipes_) pipe.pass_on("[rank " + std::to_string(rank_) + "] ", silent);
  }

  bool has_ended() const { return ended_.has_value(); }
  /// How it ended, once it has: empty for success. Then nothing of its output is left.
  std::optional<std::string> const& ended(bool silent) {
    int status = 0;
    if (ended_ || pid_ < 0) return ended_;
    pid_t const now = ::waitpid(pid_, &status, WNOHANG);
    if (now == 0 || (now < 0 && errno == EINTR)) return ended_;
    pass_on(silent);
    for (auto& pipe : pipes_) pipe.end("[rank " + std::to_string(rank_) + "] ", silent);
    if (now < 0) ended_ = "it cannot be waited for";
    else if (WIFSIGNALED(status)) ended_ = "it was killed by signal " + signal_name(WTERMSIG(status));
    else if (WEXITSTATUS(status) != 0) ended_ = "its program returned " + std::to_string(WEXITSTATUS(status));
    else ended_ = std::string();
    return ended_;
  }
  void signal(int number) const {
    if (!ended_ && pid_ > 0) ::kill(pid_, number);
  }

 private:
  struct Pipe {
    int from = -1, to = -1;
    std::string rest = {};

    void pass_on(std::string const& prefix, bool silent) {
      std::array<char, 4096> some{};
      while (from >= 0) {
        auto const count = ::read(from, some.data(), some.size());
        if (count > 0) {
          rest.append(some.data(), static_cast<std::size_t>(count));
          lines(prefix, silent);
          continue;
        }
        if (count < 0 && errno == EINTR) continue;
        if (count < 0 && errno == EAGAIN) return;
        ::close(std::exchange(from, -1));
      }
    }
    void end(std::string const& prefix, bool silent) {
      if (!rest.empty()) rest += '\n';
      lines(prefix, silent);
      if (from >= 0) ::close(std::exchange(from, -1));
    }

   private:
    /// Where somebody has made this process's output one that never waits, and its reader is slow.
    bool is_read_soon() const {
      pollfd one{to, POLLOUT, 0};
      return ::poll(&one, 1, 10000) > 0;
    }
    void lines(std::string const& prefix, bool silent) {
      auto const last = rest.rfind('\n');
      if (last == std::string::npos) return;
      std::string whole;
      for (std::size_t begin = 0; begin <= last;) {
        auto const end = rest.find('\n', begin) + 1;
        whole.append(prefix).append(rest, begin, end - begin);
        begin = end;
      }
      rest.erase(0, last + 1);
      if (silent && to == STDOUT_FILENO) return;
      for (std::string_view left = whole; !left.empty();) {
        auto const count = ::write(to, left.data(), left.size());
        if (count < 0 && errno == EAGAIN && is_read_soon()) continue;
        if (count < 0 && errno != EINTR) return;  // nobody reads it any more
        if (count > 0) left.remove_prefix(static_cast<std::size_t>(count));
      }
    }
  };

  [[noreturn]] static void refuse(std::string const& what, int problem) {
    throw Error("fulgurite.distributed.start", "the other processes of this run cannot be started: " + what + ": " +
                                                   std::generic_category().message(problem) +
                                                   "; start them with torchrun --no-python instead");
  }
  static std::string signal_name(int number) {
    char const* const name = ::sigabbrev_np(number);
    return std::to_string(number) + (name ? std::string(" (SIG") + name + ")" : std::string());
  }
  static std::array<int, 2> a_pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) refuse("pipe2", errno);
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
    return ends;
  }
  static std::vector<std::string> own_arguments() {
    std::ifstream file("/proc/self/cmdline", std::ios::binary);
    std::string const all{std::istreambuf_iterator<char>(file), {}};
    std::vector<std::string> words;
    for (std::size_t begin = 0; begin < all.size(); begin = all.find('\0', begin) + 1)
      words.emplace_back(all.c_str() + begin);
    if (words.empty()) refuse("/proc/self/cmdline cannot be read", errno);
    return words;
  }
  static std::vector<std::string> environment(std::vector<std::string> const& variables) {
    auto all = variables;
    for (char** one = ::environ; *one != nullptr; ++one) {
      std::string_view const setting(*one);
      auto const name = setting.substr(0, setting.find('=') + 1);
      bool replaced = false;
      for (auto const& variable : variables) replaced = replaced || variable.starts_with(name);
      if (!replaced) all.emplace_back(setting);
    }
    return all;
  }
  static std::vector<char*> pointers(std::vector<std::string> const& words) {
    std::vector<char*> all;
    for (auto const& word : words) all.push_back(const_cast<char*>(word.c_str()));
    all.push_back(nullptr);
    return all;
  }

  int rank_;
  pid_t pid_ = -1;
  std::array<Pipe, 2> pipes_ = {};
  std::optional<std::string> ended_ = std::nullopt;
};

}  // namespace fulgurite::distributed
