#pragma once
// The bodies of policy/policies.hpp.

#include <charconv>
#include <string>

#include <fulgurite/core/error.hpp>
#include <fulgurite/policy/policies.hpp>

namespace fulgurite {

FULGURITE_BULK_BODY NamedDevice::NamedDevice(std::string_view name) {
  if (name == "cpu") kind = Kind::cpu;
  else if (name.starts_with("cuda") && reads_index(name.substr(4))) kind = Kind::cuda;
  else if (name != "auto")
    throw Error("fulgurite.strategy.device",
                "NamedDevice{\"" + std::string(name) +
                    "\"}: no device is called that: write cpu, cuda, cuda:1 (the second GPU) or auto");
}

FULGURITE_BODY bool NamedDevice::reads_index(std::string_view rest) {
  if (rest.empty()) return true;
  char const* const end = rest.data() + rest.size();
  auto const [stopped, fault] = std::from_chars(rest.data() + 1, end, index);
  return rest.front() == ':' && fault == std::errc{} && stopped == end && index >= 0 && index <= most;
}

}  // namespace fulgurite
