#pragma once
// gloo as LibTorch brings it: sums on the CPU, over TCP.

#if !__has_include(<gloo/algorithm.h>)
#error                                                                                                                 \
    "[fulgurite.distributed.gloo_headers] LibTorch has gloo without its headers, and what is declared in their place \
is not on the include path: take fulgurite-torch from Meson, CMake or pkg-config, or add \
-idirafter .../include/fulgurite/distributed/gloo_declared"
#endif

#ifndef USE_C10D_GLOO
#define USE_C10D_GLOO
#endif

#include <chrono>
#include <cstdlib>
#include <memory>
#include <type_traits>
#include <vector>

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <fulgurite/distributed/place.hpp>
#include <fulgurite/distributed/store.hpp>

namespace fulgurite::distributed {

// The layout of c10d's class must not depend on what gloo's classes hold.
static_assert(std::is_same_v<decltype(c10d::ProcessGroupGloo::Options::devices),
                             std::vector<std::shared_ptr<gloo::transport::Device>>> &&
              std::is_abstract_v<gloo::rendezvous::Store>);

/// What carries messages between processes: a backend of c10d (gloo or NCCL), counted by reference.
using Engine = c10::intrusive_ptr<c10d::Backend>;

/// On one machine it talks through loopback. Else it takes the interface that GLOO_SOCKET_IFNAME names, or the one that
/// the machine's own name leads to.
inline Engine gloo_engine(Store const& store, Place const& place, std::chrono::milliseconds timeout) {
  auto options = c10d::ProcessGroupGloo::Options::create(timeout);
  char const* const interface = std::getenv("GLOO_SOCKET_IFNAME");
  options->devices.push_back(place.one_machine() ? c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1")
                             : interface         ? c10d::ProcessGroupGloo::createDeviceForInterface(interface)
                                                 : c10d::ProcessGroupGloo::createDefaultDevice());
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, place.rank, place.world, options);
}

}  // namespace fulgurite::distributed
