#pragma once
// Text for a language model of characters: data::text({"a.txt", "b.txt"}, {.block = 128, .batch_size = 32}).

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/data/file.hpp>
#include <fulgurite/data/split.hpp>
#include <fulgurite/data/vocabulary.hpp>
#include <fulgurite/torch/data/block_loader.hpp>

namespace fulgurite::data {

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
