#pragma once
// The name of this machine.

#include <unistd.h>

#include <climits>
#include <string>

namespace fulgurite::file {

/// The name of this machine; empty where the system does not tell it.
inline std::string host_name() {
  char host[HOST_NAME_MAX + 1] = {};
  return ::gethostname(host, sizeof host - 1) == 0 ? host : "";
}

}  // namespace fulgurite::file
