#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <unistd.h>
#include <vector>

#include <zlib.h>

#include <fulgurite/core/text.hpp>
#include <fulgurite/data/file.hpp>
#include <fulgurite/data/mnist_files.hpp>
#include <fulgurite/data/sampler.hpp>

#include "data_testing.hpp"

using namespace fulgurite::data;
using data_test::refusal;
using data_test::sentence;

namespace {

using Bytes = std::vector<std::uint8_t>;

/// An IDX file with the given magic number and lengths; the values count 0, 1, 2, ...
Bytes idx(std::uint32_t magic, std::vector<std::uint32_t> const& lengths, std::size_t values) {
  Bytes file;
  auto const put = [&](std::uint32_t n) {
    for (int shift : {24, 16, 8, 0}) file.push_back(static_cast<std::uint8_t>(n >> shift));
  };
  put(magic);
  for (auto const length : lengths) put(length);
  for (std::size_t i = 0; i < values; ++i) file.push_back(static_cast<std::uint8_t>(i % 10));
  return file;
}

Bytes gzip(Bytes const& plain) {
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, 9, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  Bytes packed(plain.size() + 1000);
  stream.next_in = const_cast<Bytef*>(plain.data());
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = packed.data();
  stream.avail_out = static_cast<uInt>(packed.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  packed.resize(packed.size() - stream.avail_out);
  deflateEnd(&stream);
  return packed;
}

Idx parse(std::span<std::uint8_t const> file, std::size_t dimensions = 3) {
  return IdxReader{"some-file"}.read(file, dimensions);
}
Bytes joined(Bytes a, Bytes const& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Bytes const images = idx(0x0803, {2, 3, 4}, 24);

struct Folder {
  std::filesystem::path path = std::filesystem::temp_directory_path() / ("fulgurite_idx_" + std::to_string(::getpid()));
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  void put(std::string const& name, Bytes const& bytes) const {
    std::ofstream(path / name, std::ios::binary)
        .write(reinterpret_cast<char const*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
};

}  // namespace

TEST_CASE("an IDX file is read, plain and packed") {
  for (Bytes const& file :
       {images, gzip(images),
        joined(gzip(Bytes(images.begin(), images.begin() + 9)), gzip(Bytes(images.begin() + 9, images.end())))}) {
    Idx const read = parse(file);
    CHECK(read.shape == std::vector<std::size_t>{2, 3, 4});
    CHECK(read.values == Bytes(images.begin() + 16, images.end()));
  }
  CHECK(parse(idx(0x0801, {5}, 5), 1).values == Bytes{0, 1, 2, 3, 4});
  CHECK(parse(idx(0x0803, {0, 28, 28}, 0)).values.empty());
}

TEST_CASE("an IDX file cut off at any byte is refused, and so is one byte more") {
  for (std::size_t length = 0; length < images.size(); ++length) {
    auto const cut = std::span(images).first(length);
    CAPTURE(length);
    CHECK(refusal([&] { parse(cut); }) == (length < 16 ? "fulgurite.data.idx_length" : "fulgurite.data.idx_shape"));
  }
  CHECK(refusal([] { parse(joined(images, {0})); }) == "fulgurite.data.idx_length");
  CHECK(sentence([] {
          parse(joined(images, {0}));
        }).find("some-file: the header promises 2 x 3 x 4 bytes, that is an end at byte 40, but more follow") !=
        std::string::npos);
  CHECK(sentence([] {
          parse(std::span(images).first(6));
        }).find("needs 4 bytes at byte 4, but the file ends at byte 6") != std::string::npos);
}

TEST_CASE("a packed file cut off at any byte is refused, and so is anything behind it") {
  Bytes const packed = gzip(images);
  for (std::size_t length = 2; length < packed.size(); ++length) {
    CAPTURE(length);
    std::string const why = refusal([&] { parse(std::span(packed).first(length)); });
    CHECK((why == "fulgurite.data.gzip" ||
           why == "fulgurite.data.idx_shape"));  // fewer packed bytes may be too few for the header's claim
  }
  CHECK(sentence([&] { parse(std::span(packed).first(packed.size() - 1)); })
            .find("[fulgurite.data.gzip] some-file: at byte " + std::to_string(packed.size() - 1) + " of " +
                  std::to_string(packed.size() - 1)) == 0);
  CHECK(sentence([&] { parse(joined(packed, {0})); }).find("1 bytes follow the end of the compressed data") !=
        std::string::npos);
  CHECK(refusal([&] { parse(joined(packed, packed)); }) == "fulgurite.data.idx_length");
  CHECK(refusal([] { parse(gzip(joined(images, {0}))); }) == "fulgurite.data.idx_length");
  CHECK(refusal([] { parse(gzip(Bytes(images.begin(), images.end() - 1))); }) == "fulgurite.data.idx_length");
}

TEST_CASE("a changed byte of a packed file is refused or changes nothing") {
  Bytes const packed = gzip(images);
  for (std::size_t at = 0; at < packed.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      Bytes changed = packed;
      changed[at] = static_cast<std::uint8_t>(changed[at] ^ (1 << bit));
      CAPTURE(at, bit);
      Bytes values;
      std::string const why = refusal([&] { values = parse(changed).values; });
      if (why == "nothing was thrown") CHECK(values == Bytes(images.begin() + 16, images.end()));
      CHECK((why == "nothing was thrown" || why == "fulgurite.data.gzip" || why.starts_with("fulgurite.data.idx_")));
    }
}

TEST_CASE("a wrong magic number is refused, with what it is") {
  CHECK(refusal([] { parse(idx(0x0801, {5}, 5)); }) == "fulgurite.data.idx_magic");
  CHECK(sentence([] { parse(idx(0x0801, {5}, 5)); })
            .find("at byte 0 the magic number 0x00000803 (unsigned bytes, 3 dimensions: images) was expected, "
                  "0x00000801 found") != std::string::npos);
  for (std::uint32_t magic : {0U, 0x0802U, 0x0804U, 0x0d03U, 0x10803U, 0x03080000U, 0xffffffffU})
    CHECK(refusal([&] { parse(idx(magic, {2, 3, 4}, 24)); }) == "fulgurite.data.idx_magic");
}

TEST_CASE("a header that promises more than the file can hold allocates nothing") {
  for (auto const& lengths : std::vector<std::vector<std::uint32_t>>{{3, 3, 4},
                                                                     {2, 3, 5},
                                                                     {0xffffffff, 28, 28},
                                                                     {0xffffffff, 0xffffffff, 0xffffffff},
                                                                     {0x80000000, 0x80000000, 4},
                                                                     {0xffffffff, 0xffffffff, 0}}) {
    std::string const why = refusal([&] { parse(idx(0x0803, lengths, 24)); });
    CHECK(why == "fulgurite.data.idx_shape");
  }
  // Packed, 60 bytes may hold 60 kB; a promise of 50 kB is only found out at the end.
  CHECK(refusal([] { parse(gzip(idx(0x0803, {50, 30, 30}, 24))); }).starts_with("fulgurite.data.idx_"));
  CHECK(refusal([] { parse(gzip(idx(0x0803, {60000, 28, 28}, 24))); }) == "fulgurite.data.idx_shape");
}

TEST_CASE("random bytes never do harm") {
  Random random{1};
  for (int round = 0; round < 3000; ++round) {
    Bytes file = round % 2 ? images : gzip(images);
    for (std::uint64_t changes = 1 + random.below(6); changes > 0; --changes)
      file[random.below(file.size())] = static_cast<std::uint8_t>(random.below(256));
    file.resize(random.below(file.size() + 1));
    std::string const why = refusal([&] { parse(file); });
    REQUIRE((why == "nothing was thrown" || why == "fulgurite.data.gzip" || why.starts_with("fulgurite.data.idx_")));
  }
}

TEST_CASE("a file is read whole or refused") {
  Folder const folder;
  folder.put("seven", Bytes(7, 1));
  folder.put("none", {});
  CHECK(read_file(folder.path / "seven") == Bytes(7, 1));
  CHECK(read_file(folder.path / "none").empty());
  CHECK(refusal([&] { read_file(folder.path / "absent"); }) == "fulgurite.data.file");
  CHECK(sentence([&] { read_file(folder.path); }).find("this is not a file") != std::string::npos);
  CHECK(refusal([&] { read_file("/dev/zero"); }) == "fulgurite.data.file");
}

TEST_CASE("MNIST's files are found under their names") {
  Folder const folder;
  CHECK_FALSE(mnist_files(folder.path, "train"));
  folder.put("train-images-idx3-ubyte.gz", {});
  CHECK(refusal([&] { mnist_files(folder.path, "train"); }) == "fulgurite.data.mnist_missing");
  CHECK(sentence([&] { mnist_files(folder.path, "train"); }).find("train-labels-idx1-ubyte") != std::string::npos);
  folder.put("train-labels.idx1-ubyte", {});
  auto const files = mnist_files(folder.path, "train");
  REQUIRE(files);
  CHECK(files->images.filename() == "train-images-idx3-ubyte.gz");
  CHECK(files->labels.filename() == "train-labels.idx1-ubyte");
  CHECK_FALSE(mnist_files(folder.path, "t10k"));
  std::vector<std::filesystem::path> const folders{"/no/such/folder", folder.path / "neither", folder.path};
  CHECK(find_mnist(folders) == folder.path);
  CHECK_FALSE(find_mnist(std::span(folders).first(2)));
}

TEST_CASE("MNIST's files are read and checked against each other") {
  Folder const folder;
  MnistFiles const files{folder.path / "images", folder.path / "labels"};
  Bytes const good_images = idx(0x0803, {3, 28, 28}, 3 * 28 * 28), good_labels = idx(0x0801, {3}, 3);
  folder.put("images", good_images);
  folder.put("labels", gzip(good_labels));
  auto const set = read_mnist(files);
  CHECK(set.size() == 3);
  CHECK(set.labels == Bytes{0, 1, 2});
  CHECK(set.pixels == Bytes(good_images.begin() + 16, good_images.end()));

  folder.put("labels", idx(0x0801, {4}, 4));
  CHECK(refusal([&] { read_mnist(files); }) == "fulgurite.data.mnist_labels");
  Bytes bad_label = good_labels;
  bad_label[10] = 10;
  folder.put("labels", bad_label);
  CHECK(sentence([&] { read_mnist(files); }).find("at byte 10 the label is 10") != std::string::npos);
  folder.put("labels", good_labels);
  folder.put("images", idx(0x0803, {3, 28, 27}, 3 * 28 * 27));
  CHECK(refusal([&] { read_mnist(files); }) == "fulgurite.data.mnist_shape");
  folder.put("images", idx(0x0803, {0, 28, 28}, 0));
  CHECK(refusal([&] { read_mnist(files); }) == "fulgurite.data.mnist_shape");
  folder.put("images", good_labels);
  CHECK(refusal([&] { read_mnist(files); }) == "fulgurite.data.idx_magic");
}
