#include <array>

#include <fulgurite/checkpoint/zip_archive.hpp>

#include "../fuzz/memory_file.hpp"
#include "checkpoint_folder.hpp"
#include "checkpoint_pt_bytes.hpp"

using namespace fulgurite;

namespace {
Records const three{{"a/x", "hello"}, {"a/y", ""}, {"a/z", std::string(3000, 'z')}};

std::string read(ZipArchive const& zip, std::string const& name) {
  auto const* entry = zip.find(name);
  REQUIRE(entry != nullptr);
  std::string bytes(entry->size, '?');
  zip.read(*entry, 0, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}
/// All that a file holds, or "" where it is refused.
std::string all_of(std::filesystem::path const& path) {
  std::string all;
  auto const said = error_of([&] {
    ZipArchive const zip(path);
    for (auto const& entry : zip.entries()) all += entry.name + "=" + read(zip, entry.name) + ";";
  });
  if (said.empty()) return all;
  CHECK(said.starts_with("[fulgurite.checkpoint.pt_zip] "));
  return {};
}
std::string patched(std::string bytes, std::size_t at, std::string_view with) {
  return bytes.replace(at, with.size(), with);
}
}  // namespace

TEST_CASE("zip: stored entries are read, as a whole and in part") {
  Folder const folder;
  put(folder / "a.zip", zip_of(three));
  ZipArchive const zip(folder / "a.zip");
  CHECK(zip.entries().size() == 3);
  for (auto const& [name, bytes] : three) CHECK(read(zip, name) == bytes);
  std::array<std::byte, 3> part{};
  zip.read(*zip.find("a/x"), 2, part);
  CHECK(std::string(reinterpret_cast<char const*>(part.data()), 3) == "llo");
  CHECK(error_of([&] { zip.read(*zip.find("a/x"), 3, part); }).find("has 5 bytes, and more were asked for") !=
        std::string::npos);
  CHECK(zip.find("a/w") == nullptr);
}

TEST_CASE("zip: what the writer writes is read, in 32 and in 64 bits, each entry at a multiple of 64") {
  Folder const folder;
  auto four = three;
  four.emplace(four.begin(), "a/w", std::string(40, 'w'));
  for (auto const wide : {zip::elsewhere, std::uint64_t{1000}, std::uint64_t{1}}) {
    INFO(wide);
    DurableFile file(folder / "a.zip");
    ZipWriter out(file, wide);
    for (auto const& [name, bytes] : four) out.add(name, bytes);
    out.finish();
    file.commit();
    ZipArchive const zip(folder / "a.zip");
    for (auto const& entry : zip.entries()) CHECK(entry.begin % 64 == 0);
    for (auto const& [name, bytes] : four) CHECK(read(zip, name) == bytes);
  }
}

TEST_CASE("zip: a file that ends early is refused wherever it ends") {
  auto const bytes = zip_of({{"a/x", "hello"}, {"a/y", ""}});
  for (std::size_t end = 0; end != bytes.size(); ++end) {
    fuzz::MemoryFile const cut(std::string_view(bytes).substr(0, end));
    INFO(end);
    CHECK(error_of([&] { ZipArchive{cut.path()}; }).starts_with("[fulgurite.checkpoint.pt_zip] "));
  }
  CHECK(all_of(fuzz::MemoryFile(bytes + "x").path()).empty());
}

TEST_CASE("zip: a flipped bit is noticed, or changes nothing of what is read") {
  Folder const folder;
  Records const two{{"a/x", "hello"}, {"a/y", ""}};
  put(folder / "narrow", zip_of(two));
  DurableFile file(folder / "wide");
  ZipWriter out(file, 1);
  for (auto const& [name, data] : two) out.add(name, data);
  out.finish();
  file.commit();
  for (auto const* kind : {"narrow", "wide"}) {
    auto const bytes = content(folder / kind);
    auto const hello = bytes.find("hello");
    for (std::size_t bit = 0; bit != 8 * bytes.size(); ++bit) {
      auto flipped = bytes;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
      auto const all = all_of(fuzz::MemoryFile(flipped).path());
      INFO(kind << " " << bit / 8);
      if (bit / 8 - hello < 5) CHECK(all.empty());
      CHECK((all.empty() || all == "a/x=hello;a/y=;"));
    }
  }
}

TEST_CASE("zip: two places of the directory have to agree") {
  Folder const folder;
  DurableFile file(folder / "a");
  ZipWriter out(file, 1);
  out.add("a/x", "hello");
  out.finish();
  file.commit();
  auto const good = content(folder / "a");
  auto const wide = good.find("PK\6\6"), locator = good.find("PK\6\7"), end = good.find("PK\5\6");
  for (auto const& [bytes, words] : std::vector<std::pair<std::string, char const*>>{
           {patched(good, locator + 8, le(std::uint64_t{1})), "in 64 bits, does not lie before this"},
           {patched(good, wide, "PK\7\7"), "the place of the directory, in 64 bits, expected"},
           {patched(good, wide + 32, le(std::uint64_t{2})), "two places of the directory that differ"},
           {patched(good, end + 12, u32(5)), "two places of the directory that differ"},
           {patched(good, wide + 40, le(~std::uint64_t{0})), "too long"},
           {patched(good, wide + 48, le(~std::uint64_t{0})), "does not lie before its end"},
           {patched(good, good.find("PK\1\2") + 46 + 3 + 2, u16(60000)), "has an extra field that leaves its place"}}) {
    put(folder / "bad", bytes);
    INFO(words);
    CHECK(error_of([&] { ZipArchive{folder / "bad"}; }).find(words) != std::string::npos);
  }
}

TEST_CASE("zip: each wrong claim is refused by what is wrong") {
  Folder const folder;
  auto const path = folder / "bad";
  auto const good = zip_of({{"a/x", "hello"}, {"a/y", ""}});
  auto const end = good.size() - 22, directory = good.find("PK\1\2"), second = good.find("PK\1\2", directory + 1);
  auto const header = good.find("PK\3\4", 1);
  for (auto const& [bytes, words] : std::vector<std::pair<std::string, char const*>>{
           {"short", "too short for an archive"},
           {std::string(100, 'x'), "the end of a zip archive expected"},
           {patched(good, end + 20, u16(1)), "the end of a zip archive expected"},
           {patched(good, end + 4, u16(1)), "in several files"},
           {patched(good, end + 16, u32(0xFFFFFFF0)), "does not lie before its end"},
           {patched(good, end + 12, u32(200'000'000)), "too long"},
           {patched(good, end + 10, u16(9)), "too short for its entries"},
           {patched(good, end + 10, u16(1)), "holds more than its entries"},
           {patched(good, directory, "PK\7\7"), "an entry of the directory expected"},
           {patched(good, directory + 10, u16(8)), "'a/x' is compressed"},
           {patched(good, directory + 8, u16(1)), "'a/x' is encrypted"},
           {patched(good, directory + 20, u32(4)), "its two sizes differ"},
           {patched(good, directory + 34, u16(1)), "lies in another file"},
           {patched(good, directory + 28, u16(60000)), "ends in an entry"},
           {patched(good, directory + 46, "\xFF"), "not UTF-8"},
           {patched(patched(good, second + 46, "a/x"), header + 30, "a/x"), "'a/x' occurs twice"},
           {patched(good, second + 42, u32(0)), "overlaps the entry before it"},
           {patched(good, second + 42, u32(directory)), "begins behind the last byte"},
           {patched(good, second + 42, u32(0xFFFFFFFF)), "lacks a number of 64 bits"},
           {patched(patched(good, second + 20, u32(5000)), second + 24, u32(5000)), "ends behind the last byte"},
           {patched(good, header + 28, u16(60000)), "ends behind the last byte"},
           {patched(good, header + 30, "b"), "has another header in its place"},
           {patched(good, header + 8, u16(8)), "has another header in its place"}}) {
    put(path, bytes);
    INFO(words);
    CHECK(error_of([&] { ZipArchive{path}; }).find(words) != std::string::npos);
  }
  put(path, patched(good, good.find("hello"), "jello"));
  CHECK(error_of([&] { read(ZipArchive(path), "a/x"); }).find("their checksum differs") != std::string::npos);
  CHECK(error_of([&] {
          std::array<std::byte, 2> part{};
          ZipArchive const zip(path);
          zip.read(*zip.find("a/x"), 2, part);
        }).find("their checksum differs") != std::string::npos);
  CHECK(error_of([&] { ZipArchive{folder / "none"}; }).find("No such file or directory (errno 2)") !=
        std::string::npos);
  CHECK(error_of([&] { ZipArchive{folder.path}; }).find("not a regular file") != std::string::npos);
}
