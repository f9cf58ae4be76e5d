#pragma once
// The batch that our own loaders yield: LibTorch's own pair of tensors, so that a model also works with torch::data's loaders.

#include <torch/data/example.h>

namespace fulgurite::data {

/// `batch.data` and `batch.target`, samples along dimension 0.
using Batch = torch::data::Example<>;

}  // namespace fulgurite::data
