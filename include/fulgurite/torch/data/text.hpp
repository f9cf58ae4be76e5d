#pragma once
// Text for a language model of characters: data::text({"a.txt", "b.txt"}, {.block = 128, .batch_size = 32}).

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <torch/types.h>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/data/batches.hpp>
#include <fulgurite/data/file.hpp>
#include <fulgurite/data/sampler.hpp>
#include <fulgurite/data/team.hpp>
#include <fulgurite/torch/data/stack.hpp>
#include <fulgurite/torch/data/tensor_loader.hpp>

namespace fulgurite::data {

// Batches of pieces of one long sequence of numbers. The target of a piece is the same piece shifted by one, as for
// training a language model.

/// How a sequence is cut into pieces for a BlockLoader.
struct BlockOptions {
  long block = 128;    ///< the length T of a piece
  bool random = true;  ///< pieces from random positions; false: consecutive pieces, each once
  long batches =
      0;  ///< batches in an epoch; 0: as many as make one pass over the sequence (random pieces overlap and leave gaps)
  long batch_size = 32;            ///< the number B of pieces in a batch
  std::uint64_t seed = 0;          ///< of the random positions
  int workers = 0;                 ///< threads that cut batches ahead; 0: the loop does it
  int prefetch = 2;                ///< how many batches each worker may be ahead
  bool persistent_workers = true;  ///< workers live across epochs
  Timeout timeout = {};            ///< longest wait of the loop for one batch; 0: no limit
  bool pin_memory = false;         ///< put batches into page-locked memory; needs a GPU
};

/// A sized range of batches of int64 tensors B x T, where `target[b][t] == data[b][t + 1]`: `BlockLoader
/// loader{numbers, {.block = 128, .batch_size = 32}};`. Random pieces depend only on the seed, the epoch and the number
/// of the batch. Consecutive pieces leave out a remainder that does not fill a piece, and their last batch may have
/// fewer rows.
class BlockLoader : public Batches<BlockLoader, Batch> {
  using Base = Batches<BlockLoader, Batch>;

 public:
  static constexpr bool batches_stay_valid = true;  ///< two buffers take turns

  /// Throws fulgurite.data.block if .block is below 1 or the sequence is shorter than block + 1, and likewise for
  /// .batch_size and .batches.
  BlockLoader(std::vector<std::int64_t> numbers, BlockOptions options);

  std::size_t size() const;
  Layout layout() const;

  long batch_size() const { return options_.batch_size; }
  /// Sets the number of pieces in a batch from the next `begin()` on, which starts an epoch. A given number of
  /// `.batches` stays the same.
  void set_batch_size(long size);

  /// Restricts the loader to one rank's part: other random pieces, or every `world`-th one. In training all ranks have
  /// equally many batches. The trainer calls this.
  void shard(int rank, int world, bool training);

  /// The part of all ranks' pieces that this loader takes.
  RankShare share() const { return share_; }

  /// While on, every epoch from the next one on has the pieces of epoch 0, for overfit_batches.
  void in_order(bool on) { this->repeat_epoch(on); }

  /// The waiting time of the last pass; see Waited.
  Waited waited() const { return reader_.waited(); }

  void state(auto& archive);

 private:
  friend Base;
  using Numbers = std::shared_ptr<std::vector<std::int64_t> const>;

  BlockLoader(Numbers numbers, BlockOptions options);

  void count();

  long own_pieces() const;

  void start(long epoch, long first);

  bool next(std::optional<Batch>& batch);

  Numbers numbers_;
  RankShare share_{};
  BlockOptions options_;
  std::function<Batch(std::size_t k, Buffers& data, Buffers& target)> cut_;  // makes batch k of the pass
  Buffers data_, target_;
  BatchReader<Batch> reader_;
  long batches_ = 0;
};

/// How a text is cut into pieces and split.
struct TextOptions {
  long block = 128;        ///< the length of a piece in characters
  long batches = 0;        ///< training batches in an epoch; 0: as many as make one pass over the text
  Share validation = 0.1;  ///< the end of the text: a fraction or a count of characters
  long batch_size = 32;
  std::uint64_t seed = 0;  ///< of the random positions
  int workers = 0;
  int prefetch = 2;
  bool persistent_workers = true;
  Timeout timeout = {};
  bool pin_memory = false;
};

/// A data module over a text: a vocabulary and two loaders of int64 batches B x block. It trains on random pieces, and
/// validates on the consecutive pieces at the end of the text, which are held out.
class TextModule {
 public:
  TextModule(std::string_view text, TextOptions options);

  Vocabulary const& vocabulary() const { return vocabulary_; }
  std::vector<std::int64_t> encode(std::string_view text) const { return vocabulary_.encode(text); }
  std::string decode(std::span<std::int64_t const> numbers) const { return vocabulary_.decode(numbers); }

  /// The batch size of both loaders. A new value takes effect at their next epochs.
  long batch_size() const { return train_.batch_size(); }
  void set_batch_size(long size);

  /// Saves or loads the vocabulary. Throws [fulgurite.data.text_changed] if a run is resumed with another one.
  void state(auto& archive);

  BlockLoader& train_dataloader() { return train_; }
  BlockLoader& val_dataloader() { return validation_; }

 private:
  struct Parts {
    std::vector<std::int64_t> train, validation;
  };

  TextModule(std::string_view text, Vocabulary vocabulary, TextOptions options);
  TextModule(Parts parts, Vocabulary&& vocabulary, TextOptions options);

  static BlockOptions pieces(TextOptions const& options, bool training);

  static Parts parted(std::vector<std::int64_t> numbers, TextOptions const& options);

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
  /// are empty.
  std::string read() const;

 private:
  std::vector<std::filesystem::path> files_;
};

/// Makes a data module from UTF-8 files: `data::text({"a.txt", "b.txt"}, {.block = 128, .batch_size = 32})`. For a text
/// in memory use `data::text_of(string, options)`.
TextModule text(TextFiles const& files, TextOptions options = {});
/// Makes a data module from a text in memory.
inline TextModule text_of(std::string_view content, TextOptions options = {}) { return {content, options}; }

}  // namespace fulgurite::data

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/data/text.ipp>
#endif
