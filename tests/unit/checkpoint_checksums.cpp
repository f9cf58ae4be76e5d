// Checksums: the algorithm, what a file holds, and that no bit of it can change unnoticed.
#include <array>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <fulgurite/checkpoint/run_file.hpp>
#include <fulgurite/core/archive.hpp>
#include <fulgurite/core/text.hpp>

#include "../fuzz/memory_file.hpp"
#include "checkpoint_folder.hpp"
#include "checkpoint_sealed.hpp"

using namespace fulgurite;

namespace {
std::uint32_t sum_of(std::string_view text) { return crc32c(0, std::as_bytes(std::span(text))); }

/// A run with two weights, an empty one, and a tensor in its state.
void save(std::filesystem::path const& path, Metadata metadata = {}) {
  auto const weights = [](auto&& f) {
    f(std::string_view("layer.weight"), WeightView{"F32", {2}, std::as_bytes(std::span("abcdefgh", 8))});
    f(std::string_view("none"), WeightView{"F32", {0}, {}});
    f(std::string_view("b"), WeightView{"U8", {3}, std::as_bytes(std::span("xyz", 3))});
  };
  std::string const moments = "12345678";
  auto const all = std::as_bytes(std::span(moments));
  SavedTensor const tensor("F64", {1}, std::vector<std::byte>(all.begin(), all.end()));
  long step = 3;
  save_run_file(path, weights, [&](auto& archive) { archive("step", step).tensor("moments", tensor); }, {}, metadata);
}
/// What is said of a file when all of it is read, as weights and as a run.
std::string said_of(std::filesystem::path const& path) {
  return error_of([&] {
    SafetensorsFile const file(path);
    for (auto const& entry : file.entries()) {
      std::vector<std::byte> bytes(entry.end - entry.begin);
      file.read(entry, bytes);
    }
  });
}
std::string said_of_run(std::filesystem::path const& path) {
  return error_of([&] { run_state(SafetensorsFile(path)); });
}
std::string changed(std::string text, std::string_view what, std::string_view by) {
  auto const at = text.find(what);
  REQUIRE(at != std::string::npos);
  return text.replace(at, what.size(), by);
}
}  // namespace

TEST_CASE("CRC-32C gives the sums of RFC 3720, by the table and by the instruction") {
  std::string ascending(32, '\0'), descending(32, '\0');
  std::iota(ascending.begin(), ascending.end(), '\0');
  std::iota(descending.rbegin(), descending.rend(), '\0');
  std::string const command("\x01\xC0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x14\0\0\0\0\0\x04\0\0\0\0\x14\0\0\0\x18\x28\0\0\0"
                            "\0\0\0\0\x02\0\0\0\0\0\0\0",
                            48);
  struct Known {
    std::string text;
    std::uint32_t sum;
  };
  for (auto const& [text, sum] : std::vector<Known>{{"", 0},
                                                    {"123456789", 0xE3069283},
                                                    {std::string(32, '\0'), 0x8A9136AA},
                                                    {std::string(32, '\xFF'), 0x62A8AB43},
                                                    {ascending, 0x46DD794E},
                                                    {descending, 0x113FDB5C},
                                                    {command, 0xD9963A56}}) {
    INFO(text.size());
    CHECK(sum_of(text) == sum);
    CHECK(~crc::by_table(~0U, std::as_bytes(std::span(text))) == sum);
  }
  std::mt19937 random(1);
  std::string text(1000, '\0');
  for (char& c : text) c = static_cast<char>(random() % 256);
  for (std::size_t n = 0; n < text.size(); n += 1 + n / 40) {
    auto const all = std::as_bytes(std::span(text)), first = all.first(n), rest = all.subspan(n);
    REQUIRE(crc32c(crc32c(0, first), rest) == sum_of(text));
    REQUIRE(~crc::by_table(~0U, first) == crc32c(0, first));
  }
}

TEST_CASE("a run's file holds its format and the sums of its tensors and its header") {
  Folder const folder;
  save(folder / "run");
  SafetensorsFile const file(folder / "run");
  CHECK(file.has_checksums());
  CHECK(file.metadata().at("fulgurite.format") == "2");
  std::string sums;
  for (std::string_view const bytes : {"12345678", "abcdefgh", "", "xyz"}) sums += safetensors::sum_text(sum_of(bytes));
  CHECK(file.metadata().at("fulgurite.crc32c") == sums);  // in the order of the bytes: wide elements first
  auto const text = content(folder / "run");
  std::uint64_t length = 0;
  std::memcpy(&length, text.data(), 8);
  auto const sum = file.metadata().at("fulgurite.header");
  auto const blank =
      changed(text.substr(8, length), "\"fulgurite.header\":\"" + sum, "\"fulgurite.header\":\"00000000");
  CHECK(sum == safetensors::sum_text(sum_of(blank)));
  CHECK(run_state(file).find("step") != nullptr);
}

TEST_CASE("the sums lie where they belong, whatever names and texts look like them") {
  Folder const folder;
  save(folder / "run", {{"\"fulgurite.header", "\",\"fulgurite.header\":\"00000000"},
                        {"!,\"fulgurite.crc32c\":\"", "fulgurite.crc32c"}});
  CHECK(said_of_run(folder / "run") == "");
  SafetensorsFile const file(folder / "run");
  CHECK(file.metadata().contains("!,\"fulgurite.crc32c\":\""));
}

TEST_CASE("every bit of a run's file that changes is noticed") {
  Folder const folder;
  save(folder / "run");
  auto text = content(folder / "run");
  REQUIRE(text.size() < 1000);
  for (std::size_t bit = 0; bit != 8 * text.size(); ++bit) {
    auto const flip = [&] { text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << (bit % 8))); };
    flip();
    fuzz::MemoryFile const damaged(text);
    INFO("byte " << bit / 8 << ", bit " << bit % 8);
    REQUIRE(said_of(damaged.path()).starts_with("[fulgurite.checkpoint."));
    REQUIRE(said_of_run(damaged.path()).starts_with("[fulgurite.checkpoint."));
    flip();
  }
}

TEST_CASE("a damaged tensor is told by its name, whether it is a weight or of the state") {
  Folder const folder;
  save(folder / "run");
  auto const text = content(folder / "run");
  auto const bad = folder / "bad";
  auto const said = [&](std::string_view what, std::string_view by) {
    put(bad, changed(text, what, by));
    auto const run = said_of_run(bad);
    CHECK(run == said_of(bad));
    return run;
  };
  auto const damaged = [&](std::string const& name) {
    return "[fulgurite.checkpoint.checksum] " + bad.string() + ": the bytes of '" + name +
           "' are not those that were written: the file is damaged, take another one";
  };
  CHECK(said("abcdefgh", "abcdefgH") == damaged("layer.weight"));
  CHECK(said("xyz", "xyy") == damaged("b"));
  CHECK(said("12345678", "02345678") == damaged("fulgurite:moments"));
  auto const header = said(R"(\"step\":3)", R"(\"step\":4)");
  CHECK(header.starts_with("[fulgurite.checkpoint.checksum] " + bad.string() + ": the header is not the one that "));
}

TEST_CASE("sums that are no sums are refused, too") {
  Folder const folder;
  save(folder / "run");
  auto const text = content(folder / "run");
  SafetensorsFile const file(folder / "run");
  auto const sums = file.metadata().at("fulgurite.crc32c");
  for (std::string const& wrong : {std::string(sums.size(), 'g'), sums.substr(8) + "\",\"k\":\"v",
                                   sums.substr(0, sums.size() - 1) + "-", std::string(sums.size(), ' ')}) {
    INFO(wrong);
    put(folder / "bad", sealed(changed(text, sums, wrong)));
    CHECK(said_of(folder / "bad").starts_with("[fulgurite.checkpoint."));
  }
}

TEST_CASE("a file of another format, or of a program that changed it, is not read as a run") {
  Folder const folder;
  save(folder / "run");
  auto const text = content(folder / "run");
  auto const bad = folder / "bad";
  put(bad, sealed(changed(text, R"("fulgurite.format":"2")", R"("fulgurite.format":"1")")));
  CHECK(said_of(bad) == "");
  CHECK(said_of_run(bad) == "[fulgurite.checkpoint.format] " + bad.string() +
                                " has format '1', and this version of the library reads format '2': read it with the "
                                "version that wrote it; its weights alone can be loaded by load_weights");
  auto const rewritten = [&](Metadata metadata) {
    write_safetensors(bad, std::move(metadata), [](auto&&) {});
    CHECK(said_of(bad) == "");
    return said_of_run(bad);
  };
  CHECK(rewritten({{"fulgurite", "{}"}}).find(" has no format, and this version ") != std::string::npos);
  CHECK(rewritten({{"fulgurite", "{}"}, {"fulgurite.format", "2"}})
            .find("has no checksums, so it was changed since it was written") != std::string::npos);
  CHECK(rewritten({}).starts_with("[fulgurite.checkpoint.no_run_state] "));
}

TEST_CASE("a file without sums is read as it is") {
  Folder const folder;
  write_safetensors(folder / "a", {{"k", "v"}}, [](auto&& f) {
    f(std::string_view("w"), WeightView{"U8", {3}, std::as_bytes(std::span("xyz", 3))});
  });
  SafetensorsFile const file(folder / "a");
  CHECK_FALSE(file.has_checksums());
  file.verify();
  CHECK(said_of(folder / "a") == "");
}
