#pragma once
// The bodies of data/file.hpp.

#include <algorithm>
#include <fstream>
#include <limits>
#include <new>
#include <system_error>
#include <utility>

#include <fulgurite/core/archive.hpp>
#include <fulgurite/data/file.hpp>

namespace fulgurite::data {

FULGURITE_BULK_BODY std::vector<std::uint8_t> read_file(std::filesystem::path const& path) {
  auto const refuse = [&](std::string const& why) { throw Error("fulgurite.data.file", path.string() + ": " + why); };
  std::error_code error;
  auto const status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) refuse("there is no such file; check the path");
  if (!std::filesystem::is_regular_file(status)) refuse("this is not a file; name the file itself");
  auto const length = std::filesystem::file_size(path, error);
  if (error) refuse("its length cannot be read (" + error.message() + ")");

  std::ifstream file(path, std::ios::binary);
  if (!file) refuse("it cannot be opened; check its permissions");
  std::vector<std::uint8_t> bytes(length);
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(length));
  if (static_cast<std::uintmax_t>(file.gcount()) != length)
    refuse("reading stopped at byte " + std::to_string(file.gcount()) + " of " + std::to_string(length) +
           "; it changed meanwhile, or its disk fails");
  return bytes;
}

FULGURITE_BULK_BODY bool is_gzip(std::span<std::uint8_t const> bytes) {
  return bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
}

FULGURITE_BULK_BODY Gunzip::Gunzip(std::span<std::uint8_t const> compressed, std::string name)
    : rest_(compressed), size_(compressed.size()), name_(std::move(name)) {
  constexpr int gzip_only = 16;
  if (inflateInit2(&stream_, MAX_WBITS + gzip_only) != Z_OK) throw std::bad_alloc();
}

FULGURITE_BULK_BODY std::size_t Gunzip::read(std::span<std::uint8_t> into) {
  std::size_t done = 0;
  while (done < into.size() && !ended_) done += inflate_some(into.subspan(done));
  return done;
}

FULGURITE_BULK_BODY std::size_t Gunzip::inflate_some(std::span<std::uint8_t> into) {
  constexpr std::size_t most = std::numeric_limits<uInt>::max();  // zlib counts in 32 bits
  auto const given = static_cast<uInt>(std::min(rest_.size(), most)),
             wanted = static_cast<uInt>(std::min(into.size(), most));
  stream_.next_in = const_cast<Bytef*>(rest_.data());  // zlib does not write to its input
  stream_.avail_in = given;
  stream_.next_out = into.data();
  stream_.avail_out = wanted;
  int const status = inflate(&stream_, Z_NO_FLUSH);
  rest_ = rest_.subspan(given - stream_.avail_in);
  if (status == Z_STREAM_END) {
    // Several gzip files may follow one another; anything else after one is an Error.
    ended_ = rest_.empty();
    if (!ended_ && !is_gzip(rest_))
      refuse(std::to_string(rest_.size()) + " bytes follow the end of the compressed data", "fetch the file again");
    if (!ended_) inflateReset(&stream_);
  } else if (status == Z_MEM_ERROR) {
    throw std::bad_alloc();
  } else if (status == Z_BUF_ERROR) {  // no input left
    refuse("the compressed data end too early", "it was cut off, probably while downloading: fetch it again");
  } else if (status != Z_OK) {
    refuse(std::string("the compressed data are damaged (") + (stream_.msg ? stream_.msg : "unknown reason") + ")",
           "fetch the file again");
  }
  return wanted - stream_.avail_out;
}

FULGURITE_BULK_BODY void Gunzip::refuse(std::string const& what, std::string const& cure) const {
  throw Error("fulgurite.data.gzip", name_ + ": at byte " + std::to_string(size_ - rest_.size()) + " of " +
                                         std::to_string(size_) + " " + what + "; " + cure);
}

FULGURITE_BULK_BODY Vocabulary::Vocabulary(std::string_view text, std::string_view source) {
  each_character(text, source, [&](std::string_view character, std::size_t) {
    auto const at = std::ranges::lower_bound(characters_, character);
    if (at == characters_.end() || *at != character) characters_.emplace(at, character);
  });
}

FULGURITE_BULK_BODY std::string Vocabulary::characters() const {
  std::string all;
  for (auto const& character : characters_) all += character;
  return all;
}

FULGURITE_BULK_BODY std::vector<std::int64_t> Vocabulary::encode(std::string_view text) const {
  std::vector<std::int64_t> numbers;
  numbers.reserve(text.size());
  each_character(text, "the text to encode", [&](std::string_view character, std::size_t offset) {
    auto const at = std::ranges::lower_bound(characters_, character);
    if (at == characters_.end() || *at != character)
      throw Error("fulgurite.data.unknown_character",
                  "\"" + std::string(character) + "\" at byte " + std::to_string(offset) + " is not among the " +
                      std::to_string(size()) +
                      " characters of the vocabulary: leave it out, or make the vocabulary of a text that has it");
    numbers.push_back(at - characters_.begin());
  });
  return numbers;
}

FULGURITE_BULK_BODY std::string Vocabulary::decode(std::span<std::int64_t const> numbers) const {
  std::string text;
  for (std::int64_t const number : numbers) {
    if (number < 0 || static_cast<std::size_t>(number) >= size())
      throw Error("fulgurite.data.unknown_number",
                  std::to_string(number) + " stands for no character: the vocabulary has 0 to " +
                      std::to_string(size()) + " - 1; the numbers come from another vocabulary");
    text += characters_[static_cast<std::size_t>(number)];
  }
  return text;
}

FULGURITE_BODY void Vocabulary::refuse_change(Vocabulary const& saved) const {
  auto const differing = std::ranges::mismatch(characters_, saved.characters_);
  auto const text = [](auto const& of, auto const& at) { return at == of.end() ? "none" : "'" + *at + "'"; };
  throw Error(
      "fulgurite.data.text_changed",
      "the text has another vocabulary (" + std::to_string(size()) +
          " characters) than the one that the checkpoint was trained on (" + std::to_string(saved.size()) +
          "): character " + std::to_string(differing.in1 - characters_.begin()) + " is " +
          text(characters_, differing.in1) + " here and " + text(saved.characters_, differing.in2) +
          " in the checkpoint; give the same text, or encode yours by data_state<data::Vocabulary>(checkpoint)");
}

void Vocabulary::state(auto& archive) {
  auto all = characters();
  archive("characters", all);
  Vocabulary saved(all, "the saved vocabulary");
  if (size() != 0 && saved.size() != 0 && saved.characters_ != characters_) refuse_change(saved);
  characters_ = std::move(saved.characters_);
}
FULGURITE_STATE(Vocabulary)

}  // namespace fulgurite::data
