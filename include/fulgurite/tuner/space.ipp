#pragma once
// The bodies of tuner/space.hpp.

#include <fulgurite/report/numbers.hpp>
#include <fulgurite/tuner/space.hpp>

namespace fulgurite::tune::fields {

FULGURITE_BODY std::string number(double value, bool exactly, bool single) {
  return !exactly ? report::formatted("%.6g", value) : single ? report::formatted("%.9g", value) : report::exact(value);
}

}  // namespace fulgurite::tune::fields
