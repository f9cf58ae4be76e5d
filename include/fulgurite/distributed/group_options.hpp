#pragma once
// What a group of processes is made of, and which place this process has in it before it is made.

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include <torch/cuda.h>

#include <fulgurite/core/error.hpp>
#include <fulgurite/distributed/gloo_engine.hpp>
#include <fulgurite/distributed/nccl_engine.hpp>
#include <fulgurite/distributed/own_ranks.hpp>
#include <fulgurite/distributed/place.hpp>

namespace fulgurite {

/// Who sums the gradients of several processes, and with it on what they compute.
enum class Collectives : std::uint8_t {
  by_device,  ///< nccl where LibTorch sees a GPU and this program was compiled with it, else gloo
  gloo,       ///< on the CPU
  nccl        ///< one GPU for each process
};

namespace distributed {

/// Makes a c10d backend in place of gloo, as a test does. Called up to three times: gradients, decisions and buckets
/// of gradients go their own ways.
using MakeEngine = std::function<Engine(Store const&, Place const&, std::chrono::milliseconds)>;

/// What strategies of several processes are told of these. 0 devices or nodes: as many as the launcher started; without
/// a launcher one process, or one for each GPU. `timeout`: how long a rank waits for the others before an Error.
struct GroupOptions {
  Collectives backend = Collectives::by_device;  ///< who sums gradients
  int devices = 0;                               ///< processes on each machine
  int num_nodes = 0;                             ///< machines
  OtherRanks others = OtherRanks::prefixed;      ///< what becomes of the other processes' output
  std::chrono::milliseconds timeout{};
  MakeEngine engine = nullptr;  ///< in place of `backend`'s own, for tests

  /// Whether NCCL sums the gradients, so that each process has a GPU.
  bool uses_nccl() const {
#if defined(FULGURITE_HAS_NCCL)
    return backend == Collectives::nccl || (backend == Collectives::by_device && torch::cuda::is_available());
#else
    return backend == Collectives::nccl;
#endif
  }

  /// Whether both name the same who carries messages. Of engines only their types can be compared.
  bool is_carried_like(GroupOptions const& other) const {
    return engine.target_type() == other.engine.target_type() && (engine || uses_nccl() == other.uses_nccl());
  }

  /// The place that a launcher gave this process, else rank 0 of those that this program is to start. An Error where
  /// options and launcher disagree.
  Place place() const {
    if (devices < 0 || num_nodes < 0 || timeout <= std::chrono::milliseconds(0))
      throw Error("fulgurite.distributed.options",
                  "devices and num_nodes cannot be negative, and timeout has to be more than nothing");
    auto const& given = launched_place();
    if (!given) return alone();
    int const nodes = given->world / given->local_world;
    if (devices != 0 && devices != given->local_world) disagree("devices", devices, given->local_world);
    if (num_nodes != 0 && num_nodes != nodes) disagree("num_nodes", num_nodes, nodes);
    return *given;
  }

 private:
  Place alone() const {
    if (num_nodes > 1)
      throw Error("fulgurite.distributed.num_nodes",
                  "num_nodes = " + std::to_string(num_nodes) +
                      ", and nobody has started processes on other machines: start this program on each with torchrun "
                      "--no-python --nnodes, or with srun");
    Place place;
    place.world = place.local_world = devices != 0 ? devices : 1;
#if defined(FULGURITE_HAS_NCCL)
    if (devices == 0 && uses_nccl() && torch::cuda::is_available())
      place.world = place.local_world = static_cast<int>(torch::cuda::device_count());
#endif
    return place;
  }
  [[noreturn]] static void disagree(std::string const& name, int asked, int given) {
    throw Error("fulgurite.distributed.devices", name + " = " + std::to_string(asked) + ", and the launcher started " +
                                                     std::to_string(given) +
                                                     ": give the launcher the same number, or leave the option out");
  }
};

}  // namespace distributed
}  // namespace fulgurite
