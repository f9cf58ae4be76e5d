#pragma once
// A loader of torch::data in the shape of this library's loaders: a loop may leave it early and begin again.

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

/// With this word the user of a TorchLoader says that a batch of the data set stays as it was made until the second
/// `++` after it, and does not depend on training steps.
struct ReadAhead {};

/// `TorchLoader loader{torch::data::make_data_loader(dataset, 64)};`: unsized, since LibTorch does not tell how many
/// batches there are; `TorchLoader loader{std::move(torch_loader), 157}` says it, and is sized.
///
/// An unsized one is not read ahead, so that its end is known after the last step: without workers it is the data set
/// that makes each batch, and it may fill one tensor again and again. `TorchLoader loader{std::move(torch_loader),
/// ReadAhead{}}` says that it does not; one that collates samples (`Stack`) makes new tensors.
///
/// LibTorch refuses to begin again before the last batch was taken. After a loop that left early this one therefore
/// reads the rest of the epoch first; where that takes long (or for ever), give a function that makes the loader: it is
/// called again instead. LibTorch's RandomSampler draws from the global generator, so such an epoch cannot be repeated
/// from its number: for that, use `Loader`. What a worker throws arrives as fulgurite.data.torch_loader.
template <class L, bool Sized = false, bool Stays = false>
class TorchLoader : public Batches<TorchLoader<L, Sized, Stays>, typename L::BatchType> {
  using Base = Batches<TorchLoader, typename L::BatchType>;

 public:
  using typename Base::Batch;
  static constexpr bool batches_stay_valid = Stays;  ///< as its user has said
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
  friend Base;
  using Iterator = torch::data::Iterator<Batch>;

  void start(long /*epoch*/, long first) {
    if (at_ && make_) loader_.reset();  // joins its workers
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
        // This is one of the batches that nobody wants any more; the next ++ goes on behind it.
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
  std::optional<Iterator> at_;  // held while an epoch is going on
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
