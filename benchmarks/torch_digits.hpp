#pragma once
// The digits through LibTorch's loader: samples by index, stacked by the default collation. No workers: everything here
// runs on one thread.

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <fulgurite/data/sampler.hpp>

#include "nets.hpp"

namespace bench {

/// What torch::data::datasets::MNIST is once it has read its files.
struct DigitSet : torch::data::datasets::Dataset<DigitSet> {
  torch::Tensor images = digits().images, labels = digits().labels;
  Batch get(std::size_t i) override {
    return {images[static_cast<std::int64_t>(i)], labels[static_cast<std::int64_t>(i)]};
  }
  std::optional<std::size_t> size() const override { return static_cast<std::size_t>(images.size(0)); }
};

/// The orders that our loader takes, so that bits can be compared. It costs no more than LibTorch's RandomSampler.
class SameOrder : public torch::data::samplers::Sampler<> {
 public:
  explicit SameOrder(std::size_t count) : shuffle_{count, shuffle_seed} {}
  void reset(std::optional<std::size_t> = std::nullopt) override {
    order_ = shuffle_.indices(epoch_++);
    next_ = 0;
  }
  std::optional<std::vector<std::size_t>> next(std::size_t count) override {
    count = std::min(count, order_.size() - next_);
    if (count == 0) return std::nullopt;
    auto const from = order_.begin() + static_cast<std::ptrdiff_t>(std::exchange(next_, next_ + count));
    return std::vector(from, from + static_cast<std::ptrdiff_t>(count));
  }
  void save(torch::serialize::OutputArchive&) const override {}
  void load(torch::serialize::InputArchive&) override {}

 private:
  fulgurite::data::Shuffle shuffle_;
  std::vector<std::size_t> order_ = {};
  std::size_t next_ = 0;
  long epoch_ = 0;
};

inline auto torch_digits() {
  DigitSet set;
  SameOrder order(*set.size());
  return torch::data::make_data_loader(std::move(set).map(torch::data::transforms::Stack<>()), std::move(order),
                                       torch::data::DataLoaderOptions(loader_batch).drop_last(true));
}

}  // namespace bench
