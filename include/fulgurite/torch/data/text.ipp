#pragma once
// The bodies of torch/data/text.hpp.

#include <unistd.h>

#include <algorithm>

#include <fulgurite/core/archive.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/torch/data/text.hpp>

namespace fulgurite::data {

/// Cuts pieces from a sequence, for one of several processes.
struct BlockCut {
  std::shared_ptr<std::vector<std::int64_t> const> numbers;
  BlockOptions options;
  RankShare share;

  /// The number of pieces that do not overlap; each needs one number after it.
  long pieces() const { return (static_cast<long>(numbers->size()) - 1) / options.block; }
  long own_pieces() const { return static_cast<long>(share.size(static_cast<std::size_t>(pieces()))); }
  /// The start of the i-th piece of this process.
  long piece(long i) const {
    return static_cast<long>(share.position(static_cast<std::size_t>(i), static_cast<std::size_t>(pieces())));
  }

  /// Makes batch k of an epoch in the memory of these buffers.
  Batch batch(long k, long epoch, Buffers& data_memory, Buffers& target_memory) const {
    long const most = options.random ? options.batch_size : std::min(options.batch_size, own_pieces());
    long const rows = options.random ? most : std::min(most, own_pieces() - k * most);
    auto const kind = torch::TensorOptions(torch::kLong).pinned_memory(options.pin_memory);
    Batch made{data_memory.next(rows, most, {options.block}, kind),
               target_memory.next(rows, most, {options.block}, kind)};
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

FULGURITE_BULK_BODY BlockLoader::BlockLoader(std::vector<std::int64_t> numbers, BlockOptions options)
    : BlockLoader(std::make_shared<std::vector<std::int64_t> const>(std::move(numbers)), options) {}

FULGURITE_BULK_BODY std::size_t BlockLoader::size() const { return static_cast<std::size_t>(batches_); }

FULGURITE_BULK_BODY Layout BlockLoader::layout() const {
  return {.batches = batches_,
          .batch_size = options_.batch_size,
          .samples = own_pieces(),
          .order = order_of(OptionalShuffle{.shuffle = options_.random, .seed = options_.seed})};
}

FULGURITE_BULK_BODY void BlockLoader::set_batch_size(long size) {
  at_least(1, "fulgurite.data.batch_size", ".batch_size", size);
  if (size == options_.batch_size) return;
  this->change_layout();
  options_.batch_size = size;
  count();
}

FULGURITE_BULK_BODY void BlockLoader::shard(int rank, int world, bool training) {
  RankShare const now{rank, world, training ? Leftover::repeat : Leftover::keep};
  if (now == share_) return;
  this->change_layout();
  share_ = now;
  count();
}

FULGURITE_BULK_BODY BlockLoader::BlockLoader(Numbers numbers, BlockOptions options)
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

FULGURITE_BULK_BODY void BlockLoader::count() {
  long const pieces = own_pieces(), pass = pieces == 0 ? 0 : (pieces - 1) / options_.batch_size + 1;
  batches_ = options_.batches == 0 ? pass : options_.random ? options_.batches : std::min(options_.batches, pass);
}

FULGURITE_BULK_BODY long BlockLoader::own_pieces() const { return BlockCut{numbers_, options_, share_}.own_pieces(); }

FULGURITE_BULK_BODY void BlockLoader::start(long epoch, long first) {
  reader_.leave();
  cut_ = [cut = BlockCut{numbers_, options_, share_}, epoch](std::size_t k, Buffers& data, Buffers& target) {
    return cut.batch(static_cast<long>(k), epoch, data, target);
  };
  typename BatchReader<Batch>::Make make;
  if (reader_.has_workers())
    make = [cut = cut_](std::size_t k, AtWork const&) -> std::optional<Batch> {
      Buffers data, target;
      return cut(k, data, target);
    };
  reader_.begin(epoch, static_cast<std::size_t>(first), size(), std::move(make));
}

FULGURITE_BULK_BODY bool BlockLoader::next(std::optional<Batch>& batch) {
  return reader_.next(batch, [this](std::size_t k) -> std::optional<Batch> { return cut_(k, data_, target_); });
}

FULGURITE_BULK_BODY TextModule::TextModule(std::string_view text, TextOptions options)
    : TextModule(text, Vocabulary(text), options) {}

FULGURITE_BULK_BODY void TextModule::set_batch_size(long size) {
  train_.set_batch_size(size);
  validation_.set_batch_size(size);
}

FULGURITE_BULK_BODY TextModule::TextModule(std::string_view text, Vocabulary vocabulary, TextOptions options)
    : TextModule(parted(vocabulary.encode(text), options), std::move(vocabulary), options) {}

FULGURITE_BULK_BODY
TextModule::TextModule(Parts parts, Vocabulary&& vocabulary,
                       TextOptions options)  // by reference, since it is moved only after encoding the parts
    : vocabulary_(std::move(vocabulary)),
      train_(std::move(parts.train), pieces(options, true)),
      validation_(std::move(parts.validation), pieces(options, false)) {}

FULGURITE_BULK_BODY BlockOptions TextModule::pieces(TextOptions const& options, bool training) {
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

FULGURITE_BULK_BODY TextModule::Parts TextModule::parted(std::vector<std::int64_t> numbers,
                                                         TextOptions const& options) {
  auto const middle = numbers.end() - static_cast<std::ptrdiff_t>(options.validation.of(numbers.size()));
  return {{numbers.begin(), middle}, {middle, numbers.end()}};
}

FULGURITE_BULK_BODY std::string TextFiles::read() const {
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

FULGURITE_BULK_BODY TextModule text(TextFiles const& files, TextOptions options) { return {files.read(), options}; }

void BlockLoader::state(auto& archive) {
  Base::state(archive);
  archive.option("seed", static_cast<long>(options_.seed)).option("random", options_.random);
}
FULGURITE_STATE(BlockLoader)

void TextModule::state(auto& archive) { vocabulary_.state(archive); }
FULGURITE_STATE(TextModule)

}  // namespace fulgurite::data
