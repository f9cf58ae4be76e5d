#pragma once
// The bodies of loop/options.hpp.

#include <fulgurite/core/error.hpp>
#include <fulgurite/loop/options.hpp>

namespace fulgurite::loop {

FULGURITE_BODY void refuse_text(char const* identifier, std::string const& name, std::string const& value,
                                std::string const& cure) {
  throw Error(identifier, name + " = " + value + ": " + cure);
}

}  // namespace fulgurite::loop
