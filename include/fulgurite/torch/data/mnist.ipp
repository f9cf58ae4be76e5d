#pragma once
// The bodies of torch/data/mnist.hpp.

#include <fulgurite/torch/data/mnist.hpp>

namespace fulgurite::data {

FULGURITE_BODY std::string scale_text(std::optional<Standardization> const& scale) {
  return scale ? "normalised by mean " + std::to_string(scale->mean) + " and deviation " +
                     std::to_string(scale->deviation)
               : std::string("as they are, from 0 to 1");
}

}  // namespace fulgurite::data
