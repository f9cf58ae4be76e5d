#pragma once
// The batch that this library's loaders yield: LibTorch's own pair of tensors, so that a model works with the loaders
// of torch::data as well.

#include <torch/data/example.h>

namespace fulgurite::data {

/// `batch.data` and `batch.target`, samples along dimension 0.
using Batch = torch::data::Example<>;

}  // namespace fulgurite::data
