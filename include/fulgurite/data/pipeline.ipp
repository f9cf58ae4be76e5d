#pragma once
// The bodies of data/pipeline.hpp.

#include <fulgurite/data/pipeline.hpp>

namespace fulgurite::data {

FULGURITE_BULK_BODY pipeline::Choosing subset(std::vector<std::size_t> samples) {
  return pipeline::Choosing(std::move(samples));
}

}  // namespace fulgurite::data
