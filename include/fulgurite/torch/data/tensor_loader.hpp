#pragma once
// The loader for data that fit into memory: a whole batch is gathered at once, into reused memory.

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <torch/types.h>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/data/batches.hpp>
#include <fulgurite/data/mnist_files.hpp>
#include <fulgurite/data/sampler.hpp>
#include <fulgurite/data/team.hpp>
#include <fulgurite/torch/data/stack.hpp>

namespace fulgurite::data {

// Memory for batches: two tensors in turn. They are allocated once, and never overwritten while the batch in them is
// still in use.

/// Modes for loading a batch: no graph, but not inference mode either, since a buffer that is first filled during
/// validation in inference mode could never be used in training.
struct LoadingMode {
  c10::InferenceMode off{false};
  torch::NoGradGuard no_grad;
};

/// `next` returns uninitialised memory for a batch: the memory of two calls ago, unless a handle, a view or a graph of
/// that batch is still alive (such as a loss that was kept, or a prediction that is a view of its input). In that case
/// it leaves that memory to its holders and allocates new memory. A copy starts without memory, since another thread
/// may read the loader that it belongs to.
class Buffers {
 public:
  Buffers() = default;
  Buffers(Buffers const&) {}
  Buffers(Buffers&&) = default;
  Buffers& operator=(Buffers const&) {
    buffers_ = {};
    return *this;
  }
  Buffers& operator=(Buffers&&) = default;
  ~Buffers() = default;

  /// A tensor of `rows` samples of `sizes`; `capacity` is the largest number of rows. A repeated call with the same
  /// arguments only allocates a handle; one with another capacity frees the old memory.
  torch::Tensor next(std::int64_t rows, std::int64_t capacity, torch::IntArrayRef sizes,
                     torch::TensorOptions const& options);

 private:
  std::array<torch::Tensor, 2> buffers_;
  unsigned turn_ = 0;
};

/// Options of a TensorLoader, with PyTorch's names. A batch size below 1 is an Error.
struct TensorLoaderOptions {
  long batch_size = 1;     ///< samples in a batch
  bool shuffle = false;    ///< a new order of the samples in each epoch
  std::uint64_t seed = 0;  ///< decides the order, together with the number of the epoch
  bool drop_last = false;  ///< drop a last batch with fewer samples
  int workers = 0;   ///< threads that gather and transform batches ahead; 0: the loop does it. For data on the CPU
  int prefetch = 2;  ///< how many batches each worker may be ahead
  bool persistent_workers = true;  ///< workers live across epochs
  Timeout timeout = {};            ///< longest wait of the loop for one batch; 0: no limit
  bool pin_memory = false;  ///< put batches into page-locked memory, from which copies to a GPU overlap with the step.
                            ///< Needs a GPU, and data on the CPU
  // Refused, and last, so that a compiler prints their sentence first.
  [[no_unique_address]] elsewhere::LoaderOption<0> num_workers = {};      ///< workers
  [[no_unique_address]] elsewhere::LoaderOption<1> prefetch_factor = {};  ///< prefetch
  [[no_unique_address]] elsewhere::LoaderOption<2> sampler = {};          ///< an argument before the options
  [[no_unique_address]] elsewhere::LoaderOption<3> collate_fn = {};       ///< an argument behind the options
};

/// Options of a loader that is given a sampler. The sampler decides the order.
struct GatherOptions {
  long batch_size = 1;
  std::uint64_t seed = 0;  ///< seed of the `BatchRandom` that a transform may take
  bool drop_last = false;
  int workers = 0;
  int prefetch = 2;
  bool persistent_workers = true;
  Timeout timeout = {};
  bool pin_memory = false;
  // Refused, and last, so that a compiler prints their sentence first.
  [[no_unique_address]] elsewhere::LoaderOption<0> num_workers = {};      ///< workers
  [[no_unique_address]] elsewhere::LoaderOption<1> prefetch_factor = {};  ///< prefetch
  [[no_unique_address]] elsewhere::LoaderOption<2> shuffle = {};          ///< the sampler decides the order
  [[no_unique_address]] elsewhere::LoaderOption<3> collate_fn = {};       ///< an argument behind the options
};

/// The loader options in the options of a data module of tensors, which have the same names.
TensorLoaderOptions loader_options(auto const& o) {
  auto options = batching_of<TensorLoaderOptions>(o);
  options.shuffle = o.shuffle;
  return options;
}

/// Worker options of a loader that processes whole tensors: each worker takes one thread.
WorkerOptions workers_of(auto const& o) {
  return {.workers = o.workers,
          .prefetch = o.prefetch,
          .on_worker_start = o.workers > 0 ? one_thread_each() : std::function<void()>(),
          .persistent_workers = o.persistent_workers,
          .timeout = o.timeout};
}

/// The transform that returns a batch as it is.
struct Untouched {
  Batch operator()(Batch batch) const { return batch; }
};

/// A function of a batch, or of a batch and its random numbers, that returns the batch to use instead.
template <class T>
concept BatchTransform = std::invocable<T&, Batch> || std::invocable<T&, Batch, BatchRandom&>;

/// A transform that several workers may call at once: it can be copied, and called as const.
template <class T>
concept SharedTransform =
    std::copy_constructible<T> && (std::invocable<T const&, Batch> || std::invocable<T const&, Batch, BatchRandom&>);

/// The result of `transform` for a batch.
template <class Transform>
Batch transformed(Transform& transform, Batch batch, [[maybe_unused]] BatchRandom random) {
  if constexpr (std::invocable<Transform&, Batch, BatchRandom&>) {
    return transform(std::move(batch), random);
  } else {
    return transform(std::move(batch));
  }
}

/// A sized range of batches from two tensors with samples along dimension 0, on any device, where the batches are made,
/// too: `TensorLoader loader{images, labels, {.batch_size = 128, .shuffle = true}};`. One `index_select` per tensor
/// makes a batch; nothing is done per sample. A batch may be written to: it is never a view of the data.
///
/// `transform(batch)` or `transform(batch, random)` changes whole batches (augmentation). `random` is a BatchRandom: it
/// depends only on the seed, the epoch, the batch and the rank, and `random.row(i)` only on the sample's place in the
/// epoch, for any number of ranks. With `.workers`, several threads call the transform at once, so it must be const and
/// draw only from `random`.
template <Sampler S = OptionalShuffle, BatchTransform Transform = Untouched>
class TensorLoader : public SampledBatches<TensorLoader<S, Transform>, Batch, S> {
  using Base = SampledBatches<TensorLoader, Batch, S>;

 public:
  static constexpr bool batches_stay_valid = true;  ///< two buffers take turns; a transform sees only its batch

  /// Throws fulgurite.data.lengths unless there is one target per sample, fulgurite.data.batch_size for a batch size
  /// below 1, fulgurite.data.pin_memory if there is nothing to pin or no GPU, and fulgurite.data.workers for workers
  /// that could not help.
  TensorLoader(torch::Tensor data, torch::Tensor target, S sampler, GatherOptions options, Transform transform = {});

  TensorLoader(torch::Tensor const& data, torch::Tensor target, TensorLoaderOptions options = {},
               Transform transform = {})
    requires std::same_as<S, OptionalShuffle>
      : TensorLoader(data, std::move(target), OptionalShuffle{rows(data), options.shuffle, options.seed},
                     batching_of<GatherOptions>(options), std::move(transform)) {}

  /// Batches of one sample. Templates, so that options in braces are never taken for a sampler or a transform.
  template <std::same_as<S> Given>
  TensorLoader(torch::Tensor data, torch::Tensor target, Given sampler)
      : TensorLoader(std::move(data), std::move(target), std::move(sampler), GatherOptions{}) {}
  template <std::same_as<Transform> Given>
    requires std::same_as<S, OptionalShuffle>
  TensorLoader(torch::Tensor const& data, torch::Tensor target, Given transform)
      : TensorLoader(data, std::move(target), TensorLoaderOptions{}, std::move(transform)) {}

  /// The waiting time of the last pass; see Waited.
  Waited waited() const { return reader_.waited(); }

  void state(auto& archive);

 private:
  friend Batches<TensorLoader, Batch>;

  static std::size_t rows(torch::Tensor const& data) {
    return data.defined() && data.dim() > 0 ? static_cast<std::size_t>(data.size(0)) : 0;
  }

  /// What a pass keeps from its beginning to its end, whatever the loader is given meanwhile for the next one.
  struct Pass {
    long epoch = 0, batch_size = 1;
    RankShare share = {};
  };

  void start(long epoch, long first);

  /// The function with which workers make batches of this pass, each in its own memory.
  typename BatchReader<Batch>::Make making() const;

  bool next(std::optional<Batch>& batch);

  static torch::Tensor slice(torch::Tensor const& order, std::size_t k, std::int64_t size) {
    std::int64_t const from = static_cast<std::int64_t>(k) * size;
    return order.narrow(0, from, std::min<std::int64_t>(size, order.size(0) - from));
  }
  static torch::Tensor into(torch::Tensor memory, torch::Tensor const& from, torch::Tensor const& index) {
    at::index_select_out(memory, from, 0, index);
    return memory;
  }
  torch::Tensor gather(torch::Tensor const& from, torch::Tensor const& index, Buffers& buffers) const {
    return into(buffers.next(index.size(0), std::min<std::int64_t>(pass_.batch_size, order_.size(0)),
                             from.sizes().slice(1), from.options().pinned_memory(options_.pin_memory)),
                from, index);
  }

  torch::Tensor data_, target_, order_;
  GatherOptions options_;
  Transform transform_;
  Buffers data_buffers_, target_buffers_;
  Pass pass_;
  BatchReader<Batch> reader_;
};

template <Sampler S, BatchTransform Transform>
TensorLoader<S, Transform>::TensorLoader(torch::Tensor data, torch::Tensor target, S sampler, GatherOptions options,
                                         Transform transform)
    : Base(std::move(sampler), options.batch_size, options.drop_last,
           std::invocable<Transform&, Batch, BatchRandom&> ? options.seed : 0),
      data_(std::move(data)),
      target_(std::move(target)),
      options_(options),
      transform_(std::move(transform)),
      reader_(workers_of(options)) {
  auto const said = [](torch::Tensor const& t) {
    return !t.defined() ? "undefined" : t.dim() == 0 ? "a scalar" : std::to_string(t.size(0)) + " long";
  };
  if (!data_.defined() || !target_.defined() || data_.dim() == 0 || target_.dim() == 0 ||
      data_.size(0) != target_.size(0))
    throw Error("fulgurite.data.lengths", "the data are " + std::string(said(data_)) + " and the targets " +
                                              said(target_) + ": both need one row for each sample along dimension 0");
  if (options_.pin_memory && !(data_.is_cpu() && target_.is_cpu()))
    throw Error("fulgurite.data.pin_memory", ".pin_memory is on, and the data are on a GPU already: take it off");
  if (options_.pin_memory) refuse_pinning_without_gpu();
  if (options_.workers > 0 && !data_.is_cpu())
    throw Error("fulgurite.data.workers", ".workers are for data on the CPU, and these are on a GPU, which makes "
                                          "batches itself: take .workers off");
  if (options_.workers > 0 && !SharedTransform<Transform>)
    throw Error("fulgurite.data.workers", "several workers would change this transform at once: make its operator() "
                                          "const (and let it be copied), or take .workers off");
}

template <Sampler S, BatchTransform Transform>
void TensorLoader<S, Transform>::state(auto& archive) {
  Base::state(archive);
  archive.option("seed", static_cast<long>(options_.seed));  // a transform draws from this seed
}

template <Sampler S, BatchTransform Transform>
void TensorLoader<S, Transform>::start(long epoch, long first) {
  LoadingMode const mode;
  reader_.leave();
  torch::Tensor order = torch::empty({static_cast<std::int64_t>(this->samples())}, torch::kLong);
  auto* at = order.mutable_data_ptr<std::int64_t>();
  this->each_sample(epoch, rows(data_), [&](std::size_t index) { *at++ = static_cast<std::int64_t>(index); });
  order_ = order.to(data_.device());
  pass_ = {epoch, this->batch_size_, this->share()};
  reader_.begin(epoch, static_cast<std::size_t>(first), this->size(), making());
}

template <Sampler S, BatchTransform Transform>
typename BatchReader<Batch>::Make TensorLoader<S, Transform>::making() const {
  typename BatchReader<Batch>::Make make;
  if constexpr (SharedTransform<Transform>)
    if (reader_.has_workers())
      make = [data = data_, target = target_, order = order_, transform = transform_, options = options_,
              pass = pass_](std::size_t k, AtWork const&) -> std::optional<Batch> {
        LoadingMode const mode;
        torch::Tensor const index = slice(order, k, pass.batch_size);
        auto const gathered = [&](torch::Tensor const& from) {
          auto shape = from.sizes().vec();
          shape.front() = index.size(0);
          return into(torch::empty(shape, from.options().pinned_memory(options.pin_memory)), from, index);
        };
        return transformed(transform, Batch{gathered(data), gathered(target)},
                           BatchRandom(options.seed, pass.epoch, k, pass.batch_size, pass.share));
      };
  return make;
}

template <Sampler S, BatchTransform Transform>
bool TensorLoader<S, Transform>::next(std::optional<Batch>& batch) {
  LoadingMode const mode;
  return reader_.next(batch, [this](std::size_t k) -> std::optional<Batch> {
    torch::Tensor const index = slice(order_, k, pass_.batch_size);
    return transformed(transform_, Batch{gather(data_, index, data_buffers_), gather(target_, index, target_buffers_)},
                       BatchRandom(options_.seed, pass_.epoch, k, pass_.batch_size, pass_.share));
  });
}

/// The sampler of a TensorLoader that was given no targets, or something else, which does not compile. A template, so
/// that the sentence waits for such a loader.
template <class T = void>
struct MissingTarget : OptionalShuffle {};
template <class T>
class TensorLoader<MissingTarget<T>, Untouched> : public TensorLoader<> {
  static constexpr bool has_target = !std::is_void_v<T>;
  static_assert(has_target,
                "[fulgurite.data.no_target] a TensorLoader takes two tensors, the data and the targets, then a sampler "
                "or none, options by their names, and behind them a transform: for a model that has no use for targets "
                "pass the data twice, TensorLoader{x, x, {...}}");
  using Options = TensorLoaderOptions;

 public:
  explicit TensorLoader(auto const&, Options const& = {}) : TensorLoader<>({}, {}) {}
  TensorLoader(auto const& x, Options const&, auto const&) : TensorLoader(x) {}
  TensorLoader(auto const& x, auto const&, Options const& = {}) : TensorLoader(x) {}
  TensorLoader(auto const& x, auto const&, Options const&, auto const&) : TensorLoader(x) {}
  TensorLoader(auto const& x, auto const&, auto const&, GatherOptions const& = {}) : TensorLoader(x) {}
  TensorLoader(auto const& x, auto const&, auto const&, auto const&) : TensorLoader(x) {}
};

template <class X>
TensorLoader(X, TensorLoaderOptions = {}) -> TensorLoader<MissingTarget<>>;
// For empty braces, which could be either of options and targets.
TensorLoader(torch::Tensor, std::nullptr_t) -> TensorLoader<MissingTarget<>>;
template <class X, class T>
TensorLoader(X, TensorLoaderOptions, T) -> TensorLoader<MissingTarget<>>;
template <class X, class Y>
  requires(!(std::convertible_to<X, torch::Tensor> && std::convertible_to<Y, torch::Tensor>))
TensorLoader(X, Y, TensorLoaderOptions = {}) -> TensorLoader<MissingTarget<>>;
template <class X, class Y, class T>
TensorLoader(X, Y, TensorLoaderOptions, T) -> TensorLoader<MissingTarget<>>;
template <class X, class Y, class S>
TensorLoader(X, Y, S, GatherOptions = {}) -> TensorLoader<MissingTarget<>>;
template <class X, class Y, class S, class T>
TensorLoader(X, Y, S, T) -> TensorLoader<MissingTarget<>>;
TensorLoader(torch::Tensor, torch::Tensor, TensorLoaderOptions = {}) -> TensorLoader<>;
template <BatchTransform T>
TensorLoader(torch::Tensor, torch::Tensor, T) -> TensorLoader<OptionalShuffle, T>;
template <BatchTransform T>
TensorLoader(torch::Tensor, torch::Tensor, TensorLoaderOptions, T) -> TensorLoader<OptionalShuffle, T>;
template <Sampler S>
TensorLoader(torch::Tensor, torch::Tensor, S, GatherOptions = {}) -> TensorLoader<S>;
template <Sampler S, BatchTransform T>
TensorLoader(torch::Tensor, torch::Tensor, S, GatherOptions, T) -> TensorLoader<S, T>;

// Used after the class and in the body file for the loaders that this library makes: see FULGURITE_EXTERN.
#define FULGURITE_TENSOR_LOADER(WHAT, ...)                                                                             \
  FULGURITE_##WHAT(class Batches<TensorLoader<__VA_ARGS__>, Batch>);                                                   \
  FULGURITE_##WHAT(class SampledBatches<TensorLoader<__VA_ARGS__>, Batch, __VA_ARGS__>);                               \
  FULGURITE_##WHAT(class TensorLoader<__VA_ARGS__>);                                                                   \
  FULGURITE_##WHAT(void TensorLoader<__VA_ARGS__>::state(::fulgurite::StateSaver&));                                   \
  FULGURITE_##WHAT(void TensorLoader<__VA_ARGS__>::state(::fulgurite::StateLoader&))

FULGURITE_EXTERN(struct TeamWork<Batch>);
FULGURITE_EXTERN(class Team<Batch>);
FULGURITE_EXTERN(class BatchReader<Batch>);
FULGURITE_TENSOR_LOADER(EXTERN, OptionalShuffle);
FULGURITE_TENSOR_LOADER(EXTERN, Subset<OptionalShuffle>);
FULGURITE_TENSOR_LOADER(EXTERN, Subset<Sequential>);

// A data module over tensors in memory, as returned by data::mnist and data::digits.

/// All samples of a dataset, in memory.
struct TensorSet {
  torch::Tensor data, target;

  std::size_t size() const;
};

/// The datasets of a module of tensors.
struct SplitSets {
  TensorSet set;
  Split parts;
  std::optional<TensorSet> test;

  SplitSets(TensorSet set, Split parts, std::optional<TensorSet> test = std::nullopt);
  FULGURITE_MOVES(SplitSets);
};

/// A data module over one dataset that is split in two, and optionally a second one for tests: `trainer.fit(model,
/// module)`. Only training batches pass through `transform` (augmentation).
template <BatchTransform Transform = Untouched>
class TensorModule {
 public:
  using Train = TensorLoader<Subset<OptionalShuffle>, Transform>;
  using Evaluation = TensorLoader<Subset<>>;

  TensorModule(TensorSet const& set, Split parts, TensorLoaderOptions const& options,
               std::optional<TensorSet> const& test = {}, Transform transform = {});
  TensorModule(SplitSets sets, TensorLoaderOptions const& options, Transform transform = {});
  FULGURITE_COPIES(TensorModule);

  /// The batch size of all loaders. A new value takes effect at their next epochs.
  long batch_size() const { return train_.batch_size(); }
  void set_batch_size(long size) {
    train_.set_batch_size(size);
    validation_.set_batch_size(size);
    if (test_) test_->set_batch_size(size);
  }

  Train& train_dataloader() { return train_; }
  Evaluation& val_dataloader() { return validation_; }

  bool has_test() const { return test_.has_value(); }
  /// Throws fulgurite.data.no_test_set if there is no test set.
  Evaluation& test_dataloader();

 private:
  /// The options for evaluation, where no sample is dropped.
  static GatherOptions whole(TensorLoaderOptions options) {
    options.drop_last = false;
    return batching_of<GatherOptions>(options);
  }

  Train train_;
  Evaluation validation_;
  std::optional<Evaluation> test_;
};

template <BatchTransform Transform>
TensorModule<Transform>::TensorModule(TensorSet const& set, Split parts, TensorLoaderOptions const& options,
                                      std::optional<TensorSet> const& test, Transform transform)
    : train_(set.data, set.target, shuffled(std::move(parts.train), options.shuffle, options.seed),
             batching_of<GatherOptions>(options), std::move(transform)),
      validation_(set.data, set.target, Subset{std::move(parts.validation)}, whole(options)) {
  if (test) test_.emplace(test->data, test->target, Subset{positions_in(0, test->size())}, whole(options));
}

template <BatchTransform Transform>
TensorModule<Transform>::TensorModule(SplitSets sets, TensorLoaderOptions const& options, Transform transform)
    : TensorModule(sets.set, std::move(sets.parts), options, sets.test, std::move(transform)) {}

template <BatchTransform Transform>
TensorModule<Transform>::TensorModule(TensorModule const&) = default;
template <BatchTransform Transform>
TensorModule<Transform>& TensorModule<Transform>::operator=(TensorModule const&) = default;
template <BatchTransform Transform>
TensorModule<Transform>::TensorModule(TensorModule&&) noexcept = default;
template <BatchTransform Transform>
TensorModule<Transform>& TensorModule<Transform>::operator=(TensorModule&&) noexcept = default;
template <BatchTransform Transform>
TensorModule<Transform>::~TensorModule() = default;

template <BatchTransform Transform>
typename TensorModule<Transform>::Evaluation& TensorModule<Transform>::test_dataloader() {
  if (!test_)
    throw Error("fulgurite.data.no_test_set",
                "there is no set to test on: for MNIST put train-* and t10k-* into the folder; for digits give .test");
  return *test_;
}

FULGURITE_EXTERN(class TensorModule<>);

/// Converts grey images to floats N x 1 x rows x columns in [0, 1], and labels to int64.
TensorSet as_tensors(LabelledImages const& images);

}  // namespace fulgurite::data

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/data/tensor_loader.ipp>
#endif
