#pragma once
// A device chosen on the command line. Devices are types, so each choice has its own trainer in the program.

#include <stdexcept>
#include <string>

#include <fulgurite/torch/single_device.hpp>

namespace example {

/// Calls `f(strategy)` with the strategy that `device` names: cpu, cuda, or auto (a GPU where there is one).
template <class F>
void with_strategy(std::string const& device, F&& f) {
  using namespace fulgurite;
  if (device == "cpu") f(SingleDevice{cpu});
  else if (device == "cuda") f(SingleDevice{cuda});
  else if (device == "auto") f(SingleDevice{automatic});
  else throw std::runtime_error("--device " + device + ": cpu, cuda or auto was expected");
}

}  // namespace example
