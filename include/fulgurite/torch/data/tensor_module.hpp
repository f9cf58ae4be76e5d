#pragma once
// A data module over tensors in memory: what data::mnist and data::digits return.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include <torch/types.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/data/mnist_files.hpp>
#include <fulgurite/data/split.hpp>
#include <fulgurite/torch/data/tensor_loader.hpp>

namespace fulgurite::data {

/// All samples of a set, in memory.
struct TensorSet {
  torch::Tensor data, target;

  std::size_t size() const { return static_cast<std::size_t>(data.size(0)); }
};

/// The loaders of a run over one set that is split in two, and perhaps a second one to test on. Pass it to
/// `trainer.fit(model, module)`. Only training batches go through `transform` (augmentation).
template <BatchTransform Transform = Untouched>
class TensorModule {
 public:
  using Train = TensorLoader<Subset<OptionalShuffle>, Transform>;
  using Evaluation = TensorLoader<Subset<>>;

  TensorModule(TensorSet const& set, Split parts, TensorLoaderOptions const& options,
               std::optional<TensorSet> const& test = {}, Transform transform = {})
      : train_(set.data, set.target, shuffled(std::move(parts.train), options), without_order(options),
               std::move(transform)),
        validation_(set.data, set.target, Subset{std::move(parts.validation)}, whole(options)) {
    if (test) test_.emplace(test->data, test->target, Subset{all(test->size())}, whole(options));
  }

  /// Rows of a batch, of all loaders alike. What is set holds from their next epochs on.
  long batch_size() const { return train_.batch_size(); }
  void set_batch_size(long size) {
    train_.set_batch_size(size);
    validation_.set_batch_size(size);
    if (test_) test_->set_batch_size(size);
  }

  Train& train_dataloader() { return train_; }
  Evaluation& val_dataloader() { return validation_; }

  bool has_test() const { return test_.has_value(); }
  /// Throws fulgurite.data.no_test_set where there is none.
  Evaluation& test_dataloader() {
    if (!test_)
      throw Error(
          "fulgurite.data.no_test_set",
          "there is no set to test on: for MNIST put train-* and t10k-* into the folder; for digits give .test");
    return *test_;
  }

 private:
  /// For evaluation no sample is left out.
  static GatherOptions whole(TensorLoaderOptions options) {
    options.drop_last = false;
    return without_order(options);
  }
  static std::vector<std::size_t> all(std::size_t count) {
    std::vector<std::size_t> positions(count);
    std::iota(positions.begin(), positions.end(), std::size_t{0});
    return positions;
  }
  static Subset<OptionalShuffle> shuffled(std::vector<std::size_t> chosen, TensorLoaderOptions const& options) {
    std::size_t const count = chosen.size();
    return {std::move(chosen), OptionalShuffle{count, options.shuffle, options.seed}};
  }

  Train train_;
  Evaluation validation_;
  std::optional<Evaluation> test_;
};

/// Grey images as floats N x 1 x rows x columns in [0, 1], labels as int64.
FULGURITE_BULK TensorSet as_tensors(LabelledImages const& images) {
  LoadingMode const mode;
  auto const count = static_cast<std::int64_t>(images.size());
  auto const bytes = [](std::vector<std::uint8_t> const& from, torch::IntArrayRef shape) {
    torch::Tensor tensor = torch::empty(shape, torch::kByte);
    std::copy(from.begin(), from.end(), tensor.mutable_data_ptr<std::uint8_t>());
    return tensor;
  };
  return {bytes(images.pixels,
                {count, 1, static_cast<std::int64_t>(images.rows), static_cast<std::int64_t>(images.columns)})
              .to(torch::kFloat)
              .div_(images.white),
          bytes(images.labels, {count}).to(torch::kLong)};
}

}  // namespace fulgurite::data
