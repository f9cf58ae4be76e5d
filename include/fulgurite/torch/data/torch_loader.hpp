#pragma once
// Adapts a loader of torch::data to this library's loaders: a loop may leave it early and begin again.

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <torch/data/dataloader.h>

#include <fulgurite/core/error.hpp>
#include <fulgurite/data/batches.hpp>

namespace fulgurite::data {

/// An argument of TorchLoader that promises: a batch stays unchanged until the second `++` after it, and does not
/// depend on training steps.
struct ReadAhead {};

/// `TorchLoader loader{torch::data::make_data_loader(dataset, 64)};` is unsized, since LibTorch does not report the
/// number of batches; `TorchLoader loader{std::move(torch_loader), 157}` gives that number, and is sized.
///
/// An unsized loader is not read ahead, so its end is detected only after the last step: without workers the dataset
/// makes each batch, and may fill the same tensor every time. `TorchLoader loader{std::move(torch_loader),
/// ReadAhead{}}` promises that it does not; a dataset that collates samples (`Stack`) makes new tensors.
///
/// LibTorch does not allow a new pass before the last batch was taken. After a loop that left early, this loader
/// therefore first reads the rest of the epoch. If that takes long (or forever), pass a function that makes the loader:
/// it is called again instead. LibTorch's RandomSampler draws from the global generator, so its epochs cannot be
/// repeated from their numbers; use `Loader` for that. An exception in a worker arrives as fulgurite.data.torch_loader.
template <class L, bool Sized = false, bool Stays = false>
class TorchLoader : public Batches<TorchLoader<L, Sized, Stays>, typename L::BatchType> {
 public:
  using Batch = typename L::BatchType;
  static constexpr bool batches_stay_valid = Stays;  ///< as promised by ReadAhead
  using Make = std::function<std::unique_ptr<L>()>;

  explicit TorchLoader(std::unique_ptr<L> loader, std::size_t batches = 0)
      : batches_(batches), loader_(std::move(loader)) {}
  explicit TorchLoader(Make make, std::size_t batches = 0) : batches_(batches), make_(std::move(make)) {}

  TorchLoader(std::unique_ptr<L> loader, ReadAhead) : TorchLoader(std::move(loader)) {}
  TorchLoader(Make make, ReadAhead) : TorchLoader(std::move(make)) {}

  std::size_t size() const
    requires Sized
  {
    return batches_;
  }

 private:
  friend Batches<TorchLoader, Batch>;
  using Iterator = torch::data::Iterator<Batch>;

  void start(long /*epoch*/, long first) {
    if (at_ && make_) loader_.reset();  // this joins its workers
    else if (at_ && loader_->options().workers > 0) guarded([this] { drain(); });
    at_.reset();
    if (!loader_) loader_ = make_();
    guarded([&] { at_.emplace(loader_->begin()); });
    fresh_ = true;
    for (std::optional<Batch> skipped; first > 0 && next(skipped); --first) {}
  }

  bool next(std::optional<Batch>& batch) {
    bool more = false;
    guarded([&] {
      if (!std::exchange(fresh_, false)) ++*at_;
      more = *at_ != loader_->end();
      if (more) batch.emplace(std::move(**at_));
    });
    if (!more) at_.reset();
    return more;
  }

  void drain() {
    for (bool more = true; more;) try {
        if (!std::exchange(fresh_, false)) ++*at_;
        more = *at_ != loader_->end();
      } catch (torch::data::WorkerException const&) {
        // The failed batch is one of those to skip; the next ++ continues after it.
      }
  }

  static void guarded(auto&& action) {
    try {
      action();
    } catch (std::exception const& original) {
      std::throw_with_nested(
          Error("fulgurite.data.torch_loader", std::string("a loader of torch::data failed: ") + original.what()));
    }
  }

  std::size_t batches_;
  Make make_;
  std::unique_ptr<L> loader_;
  std::optional<Iterator> at_;  // set during an epoch
  bool fresh_ = false;
};

template <class L>
TorchLoader(std::unique_ptr<L>) -> TorchLoader<L>;
template <class L>
TorchLoader(std::unique_ptr<L>, std::size_t) -> TorchLoader<L, true>;
template <class L>
TorchLoader(std::unique_ptr<L>, ReadAhead) -> TorchLoader<L, false, true>;
template <class Make>
TorchLoader(Make) -> TorchLoader<typename std::invoke_result_t<Make>::element_type>;
template <class Make>
TorchLoader(Make, std::size_t) -> TorchLoader<typename std::invoke_result_t<Make>::element_type, true>;
template <class Make>
TorchLoader(Make, ReadAhead) -> TorchLoader<typename std::invoke_result_t<Make>::element_type, false, true>;

}  // namespace fulgurite::data
