#pragma once
// What makes a loader, and a data module.

#include <concepts>
#include <iterator>

#include <fulgurite/hook/hooks.hpp>

namespace fulgurite {

/// Batches, epoch after epoch: each `begin()` starts an epoch. A batch stays valid until the second `++` after it was reached, since an
/// unsized loader is read one batch ahead. Optional: `set_epoch(long)`, called before each epoch, and `state(archive)`.
template <class L>
concept LoaderLike = requires(L& loader) {
  { std::begin(loader) != std::end(loader) } -> std::convertible_to<bool>;
  *std::begin(loader);
};

/// Knows its number of batches; parts of it can then be asked for, and its last batch is known without reading ahead.
template <class L>
concept SizedLoader = LoaderLike<L> && requires(L& loader) {
  { loader.size() } -> std::integral;
};

/// Hands out loaders: `train_dataloader()`, `val_dataloader()`, `test_dataloader()`, `predict_dataloader()`; a model may be its own.
template <class D>
concept DataModuleLike = hook::train_dataloader::accepts<D> || hook::val_dataloader::accepts<D> || hook::test_dataloader::accepts<D> ||
                         hook::predict_dataloader::accepts<D>;

}  // namespace fulgurite
