#pragma once
// The bodies of torch/chain/chain.hpp.

#include <fulgurite/torch/chain/chain.hpp>

namespace fulgurite::chain {

FULGURITE_BULK_BODY torch::ExpandingArray<2> both(Size2 size) {
  return torch::ExpandingArray<2>({size.height, size.width});
}

}  // namespace fulgurite::chain
