#pragma once
// A data module over pictures in folders: data::image_folder("flowers", {.batch_size = 32, .workers = 4}).

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ops/_upsample_bilinear2d_aa.h>
#include <torch/types.h>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/data/image_folder.hpp>
#include <fulgurite/data/loader.hpp>
#include <fulgurite/data/sampler.hpp>
#include <fulgurite/torch/data/stack.hpp>
#include <fulgurite/torch/data/tensor_loader.hpp>

namespace fulgurite::data {

/// How pictures are converted to tensors, split and batched.
struct ImageFolderOptions {
  long channels = 3;  ///< 3: red, green and blue, grey pictures are converted; 1: grey, coloured ones are converted
  long height = 0, width = 0;  ///< every picture is resized to this size; 0: all must have one size, and keep it
  Share validation = 0.2;      ///< a fraction or a count of the pictures; ignored with .validation_folder
  std::filesystem::path validation_folder = {};  ///< pictures to validate on, with the same classes
  long batch_size = 32;
  bool shuffle = true;
  std::uint64_t seed = 0;  ///< of the split, the shuffle, and a transform's random numbers
  bool drop_last = false;  ///< drop a last training batch with fewer samples
  int workers = 0;         ///< threads that read and decode pictures ahead
  int prefetch = 2;
  bool persistent_workers = true;
  Timeout timeout = {};  ///< longest wait of the loop for one batch; 0: no limit
  bool pin_memory = false;
};

/// What predictions need to know about pictures in folders: the classes, and how a picture becomes a tensor. An
/// ImageModule is one; `data_state<data::ImageInputs>("last.safetensors")` restores it without the folders.
class ImageInputs {
 public:
  ImageInputs() = default;
  ImageInputs(std::vector<std::string> classes, ImageFolderOptions const& options);

  std::vector<std::string> const& classes() const { return classes_; }

  /// A picture as the model's input: channels x height x width, float32 from 0 to 1.
  torch::Tensor tensor(Image read) const;
  /// A batch of one picture. Errors: those of read_image.
  torch::Tensor inputs(std::filesystem::path const& file) const;

  /// Loading into an object that has classes already requires the same classes and size of pictures. Errors:
  /// [fulgurite.data.classes_changed], [fulgurite.data.size_changed].
  void state(auto& archive);

 private:
  void refuse_change(std::vector<std::string> const& saved) const;

  std::string size_text() const;
  void refuse_size(ImageInputs const& saved) const;

  std::vector<std::string> classes_;
  std::int64_t channels_ = 3, height_ = 0, width_ = 0;
};

/// A dataset, for a Loader, of pictures as tensors with an int64 class.
class ImageTensors {
 public:
  ImageTensors(std::filesystem::path const& root, ImageFolderOptions const& options);

  std::size_t size() const { return files_->size(); }
  ImageFolder const& files() const { return *files_; }
  ImageInputs const& inputs() const { return inputs_; }

  Batch get(std::size_t i) const;

 private:
  std::shared_ptr<ImageFolder const> files_;
  ImageInputs inputs_;
};

/// Stacks pictures, and passes training batches through a transform that many workers may share.
template <class Transform>
struct StackPictures : Stack {
  Transform transform = {};
  Batch operator()(std::vector<Batch> samples) const
    requires std::invocable<Transform const&, Batch>
  {
    LoadingMode const mode;
    return transform(Stack::operator()(std::move(samples)));
  }
  Batch operator()(std::vector<Batch> samples, BatchRandom& random) const
    requires std::invocable<Transform const&, Batch, BatchRandom&>
  {
    LoadingMode const mode;
    return transform(Stack::operator()(std::move(samples)), random);
  }
};

/// The data module for pictures in folders. Pictures are read batch by batch, so the dataset need not fit into memory;
/// `.workers` read ahead. Only training batches pass through `transform(batch)` or `transform(batch, random)`, where
/// `random` is a BatchRandom; several workers may call it at once.
template <SharedTransform Transform = Untouched>
class ImageModule : public ImageInputs {
 public:
  using Train = Loader<ImageTensors, Subset<OptionalShuffle>, StackPictures<Transform>>;
  using Evaluation = Loader<ImageTensors, Subset<>, Stack>;

  ImageModule(std::filesystem::path const& root, ImageFolderOptions const& options, Transform transform = {})
      : ImageModule(ImageTensors(root, options), options, std::move(transform)) {}

  /// The batch size of all loaders. A new value takes effect at their next epochs.
  long batch_size() const { return train_.batch_size(); }
  void set_batch_size(long size) {
    train_.set_batch_size(size);
    validation_.set_batch_size(size);
  }

  Train& train_dataloader() { return train_; }
  Evaluation& val_dataloader() { return validation_; }

 private:
  ImageModule(ImageTensors images, ImageFolderOptions const& options, Transform transform)
      : ImageModule(images, held_out(images, options), options, std::move(transform)) {}
  ImageModule(ImageTensors const& images, ImageTensors const& held, ImageFolderOptions const& options,
              Transform transform)
      : ImageModule(images, held, parted(images, held, options), options, std::move(transform)) {}
  ImageModule(ImageTensors const& images, ImageTensors const& held, Split parts, ImageFolderOptions const& options,
              Transform transform)
      : ImageInputs(images.inputs()),
        train_(images, shuffled(std::move(parts.train), options.shuffle, options.seed),
               batching(options, options.drop_last), StackPictures<Transform>{{}, std::move(transform)}),
        validation_(held, Subset{std::move(parts.validation)}, batching(options, false), Stack{}) {}

  static ImageTensors held_out(ImageTensors const& images, ImageFolderOptions const& options) {
    if (options.validation_folder.empty()) return images;
    ImageTensors held(options.validation_folder, options);
    if (held.files().classes() != images.files().classes())
      throw Error("fulgurite.data.image_folder",
                  options.validation_folder.string() +
                      ": the folders in it are others than those to train on: give both the same classes");
    return held;
  }
  static Split parted(ImageTensors const& images, ImageTensors const& held, ImageFolderOptions const& options) {
    if (options.validation_folder.empty()) return split(images.size(), options.validation, options.seed);
    return {positions_in(0, images.size()), positions_in(0, held.size())};
  }
  static BatchOptions batching(ImageFolderOptions const& o, bool drop_last) {
    auto options = batching_of<BatchOptions>(o);
    options.drop_last = drop_last;
    if (o.workers > 0) options.on_worker_start = one_thread_each();
    return options;
  }

  Train train_;
  Evaluation validation_;
};

/// A data module over pictures `root/class/name.png` (or .pgm, .ppm), split by the seed, or validated on those of
/// another folder: `data::image_folder("pets", {.height = 64, .width = 64, .batch_size = 32, .workers = 4})`. Errors:
/// fulgurite.data.image_folder, .image_size, and fulgurite.data.sample when a picture is read whose file is damaged.
template <SharedTransform Transform = Untouched>
ImageModule<Transform> image_folder(std::filesystem::path const& root, ImageFolderOptions const& options = {},
                                    Transform transform = {}) {
  return {root, options, std::move(transform)};
}

}  // namespace fulgurite::data

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/data/image_folder.ipp>
#endif
