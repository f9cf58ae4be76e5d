#pragma once
// The bodies of distributed/place.hpp.

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <fulgurite/distributed/place.hpp>

namespace fulgurite::distributed {

FULGURITE_BODY std::optional<Place> const& launched_place() {
  static std::optional<Place> const place = [] {
    auto const variable = [](char const* name) { return static_cast<char const*>(std::getenv(name)); };
    return Environment(variable).place();
  }();
  return place;
}

FULGURITE_BODY int launched_rank() { return launched_place() ? launched_place()->rank : 0; }
FULGURITE_BODY int launched_local_rank() { return launched_place() ? launched_place()->local_rank : 0; }

/// Runs this program with the same arguments. The process is killed when the thread that started it ends, so that none
/// is left over if this process is killed.
class Child : Pinned {
 public:
  /// `variables`: "NAME=value", replacing the variables of the same names here.
  Child(int rank, std::vector<std::string> const& variables) : rank_(rank) {
    auto const words = own_arguments();
    auto const settings = environment(variables);
    auto const argv = pointers(words), envp = pointers(settings);
    auto const out = a_pipe(), error = a_pipe();
    pid_t const parent = ::getpid();
    pid_ = ::fork();
    if (pid_ == 0) {  // after a fork, only async-signal-safe calls
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
  /// The descriptors to poll; -1 if closed.
  std::array<int, 2> outputs() const { return {pipes_[0].from, pipes_[1].from}; }

  /// Prints the complete lines that have arrived, each prefixed by "[rank 1] ". `silent`: drops its stdout.
  void pass_on(bool silent) {
    for (auto& pipe : pipes_) pipe.pass_on("[rank " + std::to_string(rank_) + "] ", silent);
  }

  bool has_ended() const { return ended_.has_value(); }
  /// Returns how the process ended, once it has; empty for success. All of its output has been read then.
  std::optional<std::string> const& ended(bool silent) {
    int status = 0;
    if (ended_ || pid_ < 0) return ended_;
    pid_t const now = ::waitpid(pid_, &status, WNOHANG);
    if (now == 0 || (now < 0 && errno == EINTR)) return ended_;
    pass_on(silent);
    for (auto& pipe : pipes_) pipe.end("[rank " + std::to_string(rank_) + "] ", silent);
    // `now` is below 0 where the program ignores SIGCHLD: the system has reaped it, and other ranks find a failure.
    if (now > 0 && WIFSIGNALED(status)) ended_ = "it was killed by signal " + signal_name(WTERMSIG(status));
    else if (now > 0 && WEXITSTATUS(status) != 0)
      ended_ = "its program returned " + std::to_string(WEXITSTATUS(status));
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
    /// True if a write to this process's output can wait a little: the output may be non-blocking with a slow reader.
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
        if (count < 0 && errno != EINTR) return;  // its reader has closed it
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

FULGURITE_BODY OwnRanks::OwnRanks(int devices, int port, OtherRanks output, Failed failed)
    : silent_(output == OtherRanks::silent), left_(devices - 1), failed_(std::move(failed)) {
  std::unique_lock lock(mutex_);
  thread_ = std::thread([this, devices, port] { work(devices, port); });
  changed_.wait(lock, [this] { return started_; });
  if (problem_) {
    lock.unlock();
    thread_.join();
    std::rethrow_exception(problem_);
  }
}

FULGURITE_BODY OwnRanks::~OwnRanks() { thread_.join(); }

FULGURITE_BODY bool OwnRanks::wait_for(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, time, [this] { return left_ == 0; });
}

FULGURITE_BODY void OwnRanks::signal(int number) {
  std::lock_guard const lock(mutex_);
  for (auto const& child : children_) child.signal(number);
}

FULGURITE_BODY void OwnRanks::work(int devices, int port) {
  try {
    for (int rank = 1; rank != devices; ++rank)
      children_.emplace_back(
          rank, std::vector{"RANK=" + std::to_string(rank), "LOCAL_RANK=" + std::to_string(rank),
                            "WORLD_SIZE=" + std::to_string(devices), "LOCAL_WORLD_SIZE=" + std::to_string(devices),
                            "MASTER_PORT=" + std::to_string(port), std::string("MASTER_ADDR=127.0.0.1"),
                            std::string("GROUP_RANK=0"), "FULGURITE_STARTED_BY=" + std::to_string(::getpid())});
  } catch (...) {
    problem_ = std::current_exception();
    for (auto const& child : children_) child.signal(SIGKILL);
  }
  {
    std::lock_guard const lock(mutex_);
    started_ = true;
  }
  changed_.notify_all();
  while (look() != 0) {}
}

FULGURITE_BODY int OwnRanks::look() {
  std::vector<pollfd> all;
  for (auto const& child : children_)
    for (int const from : child.outputs())
      if (from >= 0) all.push_back({from, POLLIN, 0});
  ::poll(all.data(), all.size(), 20);
  std::vector<std::pair<int, std::string>> failures;
  int left = 0;
  {
    std::lock_guard const lock(mutex_);  // so that no signal is sent to a process that has been reaped
    for (auto& child : children_) {
      child.pass_on(silent_);
      if (child.has_ended()) continue;
      auto const& how = child.ended(silent_);
      if (!how) ++left;
      else if (!how->empty()) failures.emplace_back(child.rank(), *how);
    }
  }
  for (auto const& [rank, how] : failures) failed_(rank, how);
  {
    std::lock_guard const lock(mutex_);
    left_ = left;
  }
  changed_.notify_all();
  return left;
}

}  // namespace fulgurite::distributed
