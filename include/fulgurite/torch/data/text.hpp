#pragma once
// Text for a language model of characters: data::text({"a.txt", "b.txt"}, {.block = 128, .batch_size = 32}).

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <torch/types.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/data/batches.hpp>
#include <fulgurite/data/file.hpp>
#include <fulgurite/data/sampler.hpp>
#include <fulgurite/data/team.hpp>
#include <fulgurite/torch/data/stack.hpp>
#include <fulgurite/torch/data/tensor_loader.hpp>

namespace fulgurite::data {

// Batches of pieces of one long sequence of numbers. The target of a piece is the same piece one place on: this is what
// a language model is trained on.

/// How a sequence is cut into pieces for a BlockLoader.
struct BlockOptions {
  long block = 128;    ///< numbers in a piece: T
  bool random = true;  ///< pieces from anywhere; else one after another, each once
  long batches =
      0;  ///< of an epoch; 0: as many as make one pass over the sequence (random ones overlap and leave gaps)
  long batch_size = 32;  ///< pieces in a batch: B
  std::uint64_t seed = 0;
  int workers = 0;                       ///< threads that cut batches ahead; 0: the loop does
  int prefetch = 2;                      ///< batches that each worker may be ahead
  bool persistent_workers = true;        ///< they stay from epoch to epoch
  std::chrono::milliseconds timeout{0};  ///< how long the loop waits for one batch; 0: for ever
  bool pin_memory = false;               ///< batches in page-locked memory; needs CUDA
};

/// Cuts pieces of a sequence, for one process among several.
struct BlockCut {
  std::shared_ptr<std::vector<std::int64_t> const> numbers;
  BlockOptions options;
  RankShare share;

  /// Pieces that do not overlap; each needs one number after it.
  long pieces() const { return (static_cast<long>(numbers->size()) - 1) / options.block; }
  long own_pieces() const { return static_cast<long>(share.size(static_cast<std::size_t>(pieces()))); }
  /// The i-th piece of this process.
  long piece(long i) const {
    return static_cast<long>(share.position(static_cast<std::size_t>(i), static_cast<std::size_t>(pieces())));
  }

  /// Batch k of an epoch, in memory of these buffers.
  FULGURITE_BULK Batch batch(long k, long epoch, Buffers& data_memory, Buffers& target_memory) const {
    long const rows =
        options.random ? options.batch_size : std::min(options.batch_size, own_pieces() - k * options.batch_size);
    auto const kind = torch::TensorOptions(torch::kLong).pinned_memory(options.pin_memory);
    Batch made{data_memory.next(rows, options.batch_size, {options.block}, kind),
               target_memory.next(rows, options.batch_size, {options.block}, kind)};
    auto *data = made.data.mutable_data_ptr<std::int64_t>(), *target = made.target.mutable_data_ptr<std::int64_t>();
    Random random{options.seed, static_cast<std::uint64_t>(epoch),
                  static_cast<std::uint64_t>(k * share.world + share.rank)};
    for (long row = 0; row < rows; ++row) {
      auto const starts = numbers->size() - static_cast<std::size_t>(options.block);
      long const from = options.random ? static_cast<long>(random.below(starts))
                                       : piece(k * options.batch_size + row) * options.block;
      data = std::copy_n(numbers->data() + from, options.block, data);
      target = std::copy_n(numbers->data() + from + 1, options.block, target);
    }
    return made;
  }
};

/// A sized range of batches whose data and target are int64 tensors B x T: `target[b][t] == data[b][t + 1]`. Random
/// pieces depend on the seed, the epoch and the number of the batch alone. Pieces in order leave out a rest that fills
/// none, and their last batch may have fewer rows.
class BlockLoader : public Batches<BlockLoader, Batch> {
  using Base = Batches<BlockLoader, Batch>;

 public:
  static constexpr bool batches_stay_valid = true;  ///< two buffers take turns

  /// Throws fulgurite.data.block if .block is below 1 or the sequence is shorter than block + 1, and likewise for
  /// .batch_size and .batches.
  BlockLoader(std::vector<std::int64_t> numbers, BlockOptions options)
      : BlockLoader(std::make_shared<std::vector<std::int64_t> const>(std::move(numbers)), options) {}

  std::size_t size() const { return static_cast<std::size_t>(batches_); }
  Layout layout() const { return {.batches = batches_, .batch_size = options_.batch_size, .samples = own_pieces()}; }

  long batch_size() const { return options_.batch_size; }
  /// Pieces in a batch, from the next `begin()` on, which starts an epoch. Where `.batches` was given, there are still
  /// so many.
  void set_batch_size(long size) {
    at_least(1, "fulgurite.data.batch_size", ".batch_size", size);
    if (size == options_.batch_size) return;
    this->lay_out_anew();
    options_.batch_size = size;
    count();
  }

  /// The part of one process among several: pieces from elsewhere, or each `world`-th one. In training all processes
  /// have equally many batches. The trainer calls this.
  void shard(int rank, int world, bool training) {
    RankShare const now{rank, world, training ? Leftover::repeat : Leftover::keep};
    if (now == share_) return;
    this->lay_out_anew();
    share_ = now;
    count();
  }

  /// What this loader takes of the pieces that all ranks share.
  RankShare share() const { return share_; }

  /// Switched on, every epoch from the next one on has the pieces of epoch 0, as overfit_batches needs it.
  void in_order(bool on) { this->repeat_epoch(on); }

  /// Of the last pass; see Waited.
  Waited waited() const { return reader_.waited(); }

  void state(auto& archive) {
    Base::state(archive);
    archive.option("seed", static_cast<long>(options_.seed)).option("random", options_.random);
  }

 private:
  friend Base;
  using Numbers = std::shared_ptr<std::vector<std::int64_t> const>;

  BlockLoader(Numbers numbers, BlockOptions options)
      : numbers_(std::move(numbers)), options_(options), reader_(workers_of(options)) {
    if (options.pin_memory) refuse_pinning_without_gpu();
    at_least(1, "fulgurite.data.block", ".block", options.block);
    at_least(1, "fulgurite.data.batch_size", ".batch_size", options.batch_size);
    at_least(0, "fulgurite.data.batches", ".batches", options.batches);
    long const length = static_cast<long>(numbers_->size());
    if (length <= options.block)
      throw Error("fulgurite.data.block",
                  "a sequence of " + std::to_string(length) +
                      " has no piece of .block + 1 = " + std::to_string(options.block + 1) +
                      ": use a smaller .block, or more text (training and validation each need that much)");
    count();
  }

  void count() {
    long const pass = (own_pieces() + options_.batch_size - 1) / options_.batch_size;
    batches_ = options_.batches == 0 ? pass : options_.random ? options_.batches : std::min(options_.batches, pass);
  }

  long own_pieces() const { return BlockCut{numbers_, options_, share_}.own_pieces(); }

  void start(long epoch, long first) {
    reader_.leave();
    typename BatchReader<Batch>::Make make;
    if (reader_.has_workers())
      make = [cut = BlockCut{numbers_, options_, share_}, epoch](std::size_t k, AtWork const&) -> std::optional<Batch> {
        Buffers data, target;
        return cut.batch(static_cast<long>(k), epoch, data, target);
      };
    reader_.begin(epoch, static_cast<std::size_t>(first), size(), std::move(make));
  }

  bool next(std::optional<Batch>& batch) {
    return reader_.next(batch, [this](std::size_t k) -> std::optional<Batch> {
      return BlockCut{numbers_, options_, share_}.batch(static_cast<long>(k), drawn_epoch(), data_, target_);
    });
  }

  Numbers numbers_;
  RankShare share_{};
  BlockOptions options_;
  Buffers data_, target_;
  BatchReader<Batch> reader_;
  long batches_ = 0;
};

/// How a text is cut into pieces and split.
struct TextOptions {
  long block = 128;        ///< characters in a piece
  long batches = 0;        ///< training batches of an epoch; 0: as many as make one pass over the text
  Share validation = 0.1;  ///< the end of the text: a fraction, or a count of characters
  long batch_size = 32;
  std::uint64_t seed = 0;
  int workers = 0;  ///< these as in BlockOptions
  int prefetch = 2;
  bool persistent_workers = true;
  std::chrono::milliseconds timeout{0};
  bool pin_memory = false;
};

/// A vocabulary and two loaders of int64 batches B x block: random pieces to train on, and the held-out end of the
/// text, piece by piece, to validate on.
class TextModule {
 public:
  TextModule(std::string_view text, TextOptions options) : TextModule(text, Vocabulary(text), options) {}

  Vocabulary const& vocabulary() const { return vocabulary_; }
  std::vector<std::int64_t> encode(std::string_view text) const { return vocabulary_.encode(text); }
  std::string decode(std::span<std::int64_t const> numbers) const { return vocabulary_.decode(numbers); }

  /// Pieces in a batch, of both loaders alike. What is set holds from their next epochs on.
  long batch_size() const { return train_.batch_size(); }
  void set_batch_size(long size) {
    train_.set_batch_size(size);
    validation_.set_batch_size(size);
  }

  /// The vocabulary. Error [fulgurite.data.text_changed] where a run goes on with another one.
  void state(auto& archive) { vocabulary_.state(archive); }

  BlockLoader& train_dataloader() { return train_; }
  BlockLoader& val_dataloader() { return validation_; }

 private:
  struct Parts {
    std::vector<std::int64_t> train, validation;
  };

  TextModule(std::string_view text, Vocabulary vocabulary, TextOptions options)
      : TextModule(parted(vocabulary.encode(text), options), std::move(vocabulary), options) {}
  TextModule(Parts parts, Vocabulary&& vocabulary,
             TextOptions options)  // by reference, since it is moved only after it has encoded the parts
      : vocabulary_(std::move(vocabulary)),
        train_(std::move(parts.train), pieces(options, true)),
        validation_(std::move(parts.validation), pieces(options, false)) {}

  static BlockOptions pieces(TextOptions const& options, bool training) {
    return {.block = options.block,
            .random = training,
            .batches = training ? options.batches : 0,
            .batch_size = options.batch_size,
            .seed = options.seed,
            .workers = options.workers,
            .prefetch = options.prefetch,
            .persistent_workers = options.persistent_workers,
            .timeout = options.timeout,
            .pin_memory = options.pin_memory};
  }

  FULGURITE_BULK static Parts parted(std::vector<std::int64_t> numbers, TextOptions const& options) {
    auto const middle = numbers.end() - static_cast<std::ptrdiff_t>(options.validation.of(numbers.size()));
    return {{numbers.begin(), middle}, {middle, numbers.end()}};
  }

  Vocabulary vocabulary_;
  BlockLoader train_, validation_;
};

/// One path, or several in braces or a vector.
class TextFiles {
 public:
  TextFiles(std::convertible_to<std::filesystem::path> auto const& file) : files_{std::filesystem::path(file)} {}
  TextFiles(std::initializer_list<std::filesystem::path> files) : files_(files) {}
  TextFiles(std::vector<std::filesystem::path> files) : files_(std::move(files)) {}

  /// Reads the files one after another. Throws fulgurite.data.file, fulgurite.data.utf8, or fulgurite.data.text if they
  /// hold nothing.
  FULGURITE_BULK std::string read() const {
    std::string text;
    for (auto const& file : files_) {
      auto const bytes = read_file(file);
      std::string const content(bytes.begin(), bytes.end());
      each_character(content, file.string(), [](auto, auto) {});
      text += content;
    }
    if (text.empty())
      throw Error("fulgurite.data.text",
                  std::to_string(files_.size()) + " files, and no text in them: name files that have some");
    return text;
  }

 private:
  std::vector<std::filesystem::path> files_;
};

/// Reads files of UTF-8. For a text that the program already has, use `data::text_of(string, options)`.
inline TextModule text(TextFiles const& files, TextOptions options = {}) { return {files.read(), options}; }
/// The same of a text in memory.
inline TextModule text_of(std::string_view content, TextOptions options = {}) { return {content, options}; }

}  // namespace fulgurite::data
