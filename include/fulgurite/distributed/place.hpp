#pragma once
// The place of this process in its run, read from the environment: the variables of torchrun, SLURM and MPI. They are
// checked here, once, so that a mistake gives an error message and not a run that waits.

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>

namespace fulgurite {

/// What is done with the output of the processes that rank 0 has started.
enum class OtherRanks : std::uint8_t {
  prefixed,  ///< each line is printed with the prefix "[rank 1] "
  silent     ///< stdout is dropped; stderr is printed, since it has the errors
};

namespace distributed {

/// The launcher that started the processes of this run.
enum class Launcher : std::uint8_t { this_program, torchrun, slurm, mpi };

/// One process among those of a run, and the address of the store where they meet.
struct Place {
  Launcher launcher = Launcher::this_program;
  int rank = 0, world = 1;              ///< global
  int local_rank = 0, local_world = 1;  ///< on this machine
  std::string host = "127.0.0.1";       ///< host of the store through which the processes meet
  int port = 0;                         ///< port of the store; 0: not known yet
  bool agent_has_store = false;         ///< the launcher keeps the store; else rank 0 does
  int restart = 0;                      ///< how often the launcher has restarted all processes

  bool one_machine() const { return local_world == world; }
};

/// Reads an environment. `variable("RANK")` returns a text, or nullptr if the variable is not set.
template <class Variable>
class Environment {
 public:
  explicit Environment(Variable const& variable) : variable_(variable) {}

  /// The place that a launcher gave this process; nullopt if it was started by hand.
  std::optional<Place> place() const {
    if (has("RANK") || has("WORLD_SIZE")) return torchrun();
    if (has("OMPI_COMM_WORLD_RANK"))
      return mpi("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                 "OMPI_COMM_WORLD_LOCAL_SIZE");
    // mpirun may be started in a task of SLURM, whose variables its processes have, too. srun may set PMI_RANK alone.
    bool const in_slurm = (has("SLURM_STEP_ID") || has("SLURM_STEPID")) && has("SLURM_PROCID");
    if (has("PMI_RANK") && (has("MPI_LOCALRANKID") || !in_slurm))
      return mpi("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS");
    if (in_slurm) return slurm();
    return std::nullopt;
  }

 private:
  std::string_view text(char const* name) const {
    char const* const value = variable_(name);
    return value == nullptr ? std::string_view() : std::string_view(value);
  }
  bool has(char const* name) const { return !text(name).empty(); }

  [[noreturn]] static void refuse(std::string const& what) {
    throw Error("fulgurite.distributed.environment",
                what + ": start all processes with torchrun, srun or mpirun, which set these variables alike, or none "
                       "of them, and let `.devices` say how many processes this program starts");
  }
  int number(char const* name, int least, int most) const {
    auto const value = text(name);
    if (value.empty()) refuse(std::string(name) + " is not set, while variables that belong to it are");
    int read = 0;
    auto const [end, error] = std::from_chars(value.data(), value.data() + value.size(), read);
    if (error != std::errc() || end != value.data() + value.size() || read < least || read > most) {
      std::string what(name);
      what.append(" is '").append(value).append("', and a whole number from ").append(std::to_string(least));
      refuse(what.append(" to ").append(std::to_string(most)).append(" was expected"));
    }
    return read;
  }
  int number_or(char const* name, int least, int most, int otherwise) const {
    return has(name) ? number(name, least, most) : otherwise;
  }

  /// Reads the ranks from the variables with these names, which differ between launchers.
  Place ranks(Launcher launcher, char const* rank, char const* world, char const* local, char const* locals) const {
    Place place{.launcher = launcher};
    place.world = number(world, 1, most_ranks);
    place.rank = number(rank, 0, place.world - 1);
    place.local_world = number(locals, 1, place.world);
    place.local_rank = number(local, 0, place.local_world - 1);
    return place;
  }
  void meet(Place& place, std::string host, int port) const {
    place.host = has("MASTER_ADDR") ? std::string(text("MASTER_ADDR")) : std::move(host);
    place.port = number_or("MASTER_PORT", 1, 65535, port);
    if (place.host.empty())
      refuse("the processes lie on several machines, and MASTER_ADDR does not name the one of rank 0");
    if (place.one_machine()) place.host = "127.0.0.1";
  }

  Place torchrun() const {
    auto place = ranks(Launcher::torchrun, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE");
    if (!has("FULGURITE_STARTED_BY") && !has("MASTER_ADDR")) refuse("RANK is set and MASTER_ADDR is not");
    place.port = number("MASTER_PORT", 1, 65535);
    meet(place, "127.0.0.1", place.port);
    place.restart = number_or("TORCHELASTIC_RESTART_COUNT", 0, 1 << 30, 0);
    place.agent_has_store = text("TORCHELASTIC_USE_AGENT_STORE") == "True";
    if (place.agent_has_store) place.host = text("MASTER_ADDR");
    if (has("FULGURITE_STARTED_BY")) place.launcher = Launcher::this_program;
    return place;
  }

  std::optional<Place> slurm() const {
    char const* const tasks = has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
    Place place{.launcher = Launcher::slurm};
    // An interactive shell is a task of its job, and programs started in it are not ranks.
    if (auto const job = text("SLURM_JOB_NAME"); job == "bash" || job == "interactive") return std::nullopt;
    place.world = number(tasks, 1, most_ranks);
    if (place.world == 1) return std::nullopt;
    place.rank = number("SLURM_PROCID", 0, place.world - 1);
    char const* const machines = has("SLURM_STEP_NUM_NODES") ? "SLURM_STEP_NUM_NODES" : "SLURM_NNODES";
    int const nodes = number(machines, 1, place.world);
    if (place.world % nodes != 0)
      refuse(std::to_string(place.world) + " tasks on " + std::to_string(nodes) +
             " nodes: ask for the same number on each, by --ntasks-per-node");
    place.local_world = place.world / nodes;
    place.local_rank = number("SLURM_LOCALID", 0, place.local_world - 1);
    auto const list = text(has("SLURM_STEP_NODELIST") ? "SLURM_STEP_NODELIST" : "SLURM_NODELIST");
    meet(place, first_node(list), port_of_job());
    return place;
  }
  /// Derives a port from the job's id: two jobs on one machine seldom get the same.
  int port_of_job() const {
    auto const id = text("SLURM_JOB_ID");
    auto const digits = id.substr(id.size() > 4 ? id.size() - 4 : 0);
    int last = 0;
    auto const [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), last);
    return error == std::errc() && end == digits.data() + digits.size() ? 15000 + last : 12910;
  }

  std::optional<Place> mpi(char const* rank, char const* world, char const* local, char const* locals) const {
    auto place = ranks(Launcher::mpi, rank, world, local, locals);
    if (place.world == 1) return std::nullopt;
    meet(place, place.one_machine() ? "127.0.0.1" : "", 29500);
    return place;
  }

  /// The first node of a SLURM list: "gpu[03-07,9]-ib,cpu1" begins with gpu03-ib.
  static std::string first_node(std::string_view list) {
    std::string name;
    for (;;) {
      auto const end = std::min(list.find_first_of(",["), list.size());
      name += list.substr(0, end);
      if (end == list.size() || list[end] == ',') return name;
      list.remove_prefix(end + 1);
      name += list.substr(0, list.find_first_of("-,]"));
      list.remove_prefix(std::min(list.find(']'), list.size() - 1) + 1);
    }
  }

  static constexpr int most_ranks = 1 << 20;
  Variable const& variable_;
};

/// The place of this process, read once.
std::optional<Place> const& launched_place();
/// This process's number in that place; 0 if nothing started it.
int launched_rank();
/// Its number on this machine.
int launched_local_rank();

// The other processes of a run without a launcher: rank 0 starts them, prints their output, and finds out how they end.

class Child;  // one of these processes

/// Ranks 1 to devices - 1, each a process of this program with torchrun's variables. A thread that lives as long as
/// this object starts them, and they are killed when that thread dies.
class OwnRanks : Pinned {
 public:
  /// `failed(rank, how)` is called from that thread when a process has ended without success.
  using Failed = std::function<void(int, std::string const&)>;

  OwnRanks(int devices, int port, OtherRanks output, Failed failed);
  ~OwnRanks();

  /// Waits at most this long, and returns true if all have ended.
  bool wait_for(std::chrono::milliseconds time);
  /// Sends the signal to all processes that have not ended.
  void signal(int number);

 private:
  void work(int devices, int port);

  /// Waits a while for output and for processes to end; returns the number that still run.
  int look();

  bool silent_;
  int left_;
  Failed failed_;
  std::mutex mutex_ = {};
  std::condition_variable changed_ = {};
  bool started_ = false;
  std::exception_ptr problem_ = {};
  std::vector<Child> children_;
  std::thread thread_ = {};
};

}  // namespace distributed
}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/distributed/place.ipp>
#endif
