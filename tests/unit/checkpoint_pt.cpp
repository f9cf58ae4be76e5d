#include <array>
#include <cstring>
#include <limits>

#include <fulgurite/checkpoint/pickle.hpp>
#include <fulgurite/checkpoint/pt_file.hpp>

#include "../fuzz/memory_file.hpp"
#include "checkpoint_folder.hpp"
#include "checkpoint_pt_bytes.hpp"
#include "checkpoint_torch_saved.hpp"

using namespace fulgurite;

namespace {
std::string floats(std::vector<float> const& values) {
  std::string bytes(4 * values.size(), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}
std::string file_of(std::string const& pickle, Records storages = {{"0", floats({0, 1, 2, 3, 4, 5})}}) {
  Records records{{"m/data.pkl", proto + pickle + "."}, {"m/byteorder", "little"}};
  for (auto& [key, bytes] : storages) records.emplace_back("m/data/" + key, std::move(bytes));
  return zip_of(records);
}
std::string read(PtFile const& file, std::string const& name) {
  auto const* entry = file.find(name);
  REQUIRE(entry != nullptr);
  std::string bytes(*safetensors::bytes_of(entry->dtype, entry->shape), '?');
  file.read(*entry, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}
std::string all_of(std::filesystem::path const& path) {
  std::string all;
  auto const said = error_of([&] {
    PtFile const file(path);
    for (auto const& entry : file.entries()) {
      all += entry.name + " " + entry.dtype;
      for (auto const extent : entry.shape) all += " " + std::to_string(extent);
      all += read(file, entry.name);
    }
  });
  if (said.empty()) return all;
  CHECK(said.starts_with("[fulgurite.checkpoint.pt_"));
  return {};
}
TensorOf const whole{.shape = {2, 3}, .strides = {3, 1}, .count = 6};
}  // namespace

TEST_CASE("pt: tensors are read in row-major order, whatever their strides") {
  Folder const folder;
  put(folder / "a.pt",
      file_of(dict({{"whole", tensor(whole)},
                    {"transposed", tensor({.shape = {3, 2}, .strides = {1, 3}, .count = 6})},
                    {"column", tensor({.shape = {2, 1}, .strides = {3, 77}, .offset = 1, .count = 6})},
                    {"every second", tensor({.shape = {3}, .strides = {2}, .count = 6})},
                    {"twice", tensor({.shape = {2, 2}, .strides = {0, 1}, .count = 6})},
                    {"scalar", tensor({.offset = 5, .count = 6})},
                    {"empty", tensor({.shape = {0, 3}, .strides = {3, 1}, .offset = 6, .count = 6})}})));
  PtFile const file(folder / "a.pt");
  CHECK(file.entries().size() == 7);
  CHECK(file.find("whole")->dtype == "F32");
  CHECK(file.find("whole")->shape == std::vector<std::int64_t>{2, 3});
  CHECK(read(file, "whole") == floats({0, 1, 2, 3, 4, 5}));
  CHECK(read(file, "transposed") == floats({0, 3, 1, 4, 2, 5}));
  CHECK(read(file, "column") == floats({1, 4}));
  CHECK(read(file, "every second") == floats({0, 2, 4}));
  CHECK(read(file, "twice") == floats({0, 1, 0, 1}));
  CHECK(read(file, "scalar") == floats({5}));
  CHECK(read(file, "empty").empty());
  CHECK(file.find("none") == nullptr);
  std::array<std::byte, 3> small{};
  CHECK(error_of([&] { file.read(*file.find("scalar"), small); }).find("'scalar' has 4 bytes, not 3") !=
        std::string::npos);
}

TEST_CASE("pt: every element type that has a storage") {
  Folder const folder;
  int types = 0;
  for (auto const& type : safetensors::element_types) {
    if (pickle::storage_of(type.name).empty()) continue;
    ++types;
    auto const storage = std::string(pickle::storage_of(type.name)).substr(6);
    put(folder / "a.pt", file_of(dict({{"w", tensor({.shape = {2}, .strides = {1}, .count = 2, .storage = storage})}}),
                                 {{"0", std::string(2 * type.size, 'x')}}));
    PtFile const file(folder / "a.pt");
    CHECK(file.find("w")->dtype == type.name);
    CHECK(read(file, "w") == std::string(2 * type.size, 'x'));
  }
  CHECK(types == 10);
}

TEST_CASE("pt: in a checkpoint of Lightning the weights are the state_dict, and the rest is passed over") {
  Folder const folder;
  auto const weights = dict({{"model.w", tensor(whole)}});
  put(folder / "a.ckpt", file_of(dict({{"epoch", integer(3)},
                                       {"pytorch-lightning_version", text("2.6.0")},
                                       {"state_dict", weights},
                                       {"optimizer_states", "](" + dict({{"exp_avg", tensor(whole)}}) + "e"},
                                       {"milestones", "ccollections\nCounter\n}\x85R"},
                                       {"device", "ctorch\ndevice\n" + text("cpu") + "\x85R"},
                                       {"dtype", "ctorch\nfloat32\n"}})));
  PtFile const file(folder / "a.ckpt");
  REQUIRE(file.entries().size() == 1);
  CHECK(file.entries()[0].name == "model.w");
  CHECK(read(file, "model.w") == floats({0, 1, 2, 3, 4, 5}));
}

TEST_CASE("pt: files that torch.save wrote are read") {
  for (auto const& [bytes, prefix] : {std::pair(torch_saved::weights(), ""), {torch_saved::lightning(), "model."}}) {
    fuzz::MemoryFile const memory(bytes);
    PtFile const file(memory.path());
    auto const name = [&](char const* one) { return std::string(prefix) + one; };
    CHECK(file.entries().size() == 3);
    REQUIRE(file.find(name("w")) != nullptr);
    CHECK(file.find(name("w"))->shape == std::vector<std::int64_t>{3, 2});
    CHECK(read(file, name("w")) == floats({0, 3, 1, 4, 2, 5}));
    CHECK(file.find(name("half"))->dtype == "BF16");
    CHECK(read(file, name("half")) == std::string("\xC0\x3F\x00\xC0", 4));
    CHECK(file.find(name("n"))->shape.empty());
    CHECK(read(file, name("n")) == std::string("\7\0\0\0\0\0\0\0", 8));
  }
}

TEST_CASE("pt: each wrong claim about a tensor is refused by what is wrong") {
  Folder const folder;
  constexpr long large = std::numeric_limits<long>::max();
  auto const said = [&](std::string const& bytes) {
    put(folder / "a.pt", bytes);
    auto text = error_of([&] { PtFile{folder / "a.pt"}; });
    CHECK(text.starts_with("[fulgurite.checkpoint.pt_file] " + (folder / "a.pt").string() + ": "));
    return text;
  };
  for (auto const& [one, words] : std::vector<std::pair<TensorOf, char const*>>{
           {{.shape = {7}, .strides = {1}, .count = 6}, "larger than its storage"},
           {{.shape = {large, large}, .strides = {1, 1}, .count = 6}, "larger than its storage"},
           {{.shape = {6}, .strides = {0}, .offset = 6, .count = 6}, "leaves its storage"},
           {{.shape = {6}, .strides = {1}, .offset = 1, .count = 6}, "leaves its storage"},
           {{.shape = {2}, .strides = {6}, .count = 6}, "leaves its storage"},
           {{.shape = {3}, .strides = {large}, .count = 6}, "leaves its storage"},
           {{.shape = {2}, .strides = {1}, .offset = large, .count = 6}, "leaves its storage"},
           {{.shape = {2}, .strides = {1}, .offset = -1, .count = 6}, "begins before its storage"},
           {{.shape = {-1}, .strides = {1}, .count = 6}, "extents that are no numbers from 0 on"},
           {{.shape = {2}, .strides = {-1}, .offset = 3, .count = 6}, "strides that are no numbers from 0 on"},
           {{.shape = {2}, .strides = {}, .count = 6}, "not one stride for each extent"},
           {{.shape = std::vector<long>(65, 1), .strides = {}, .count = 6}, "more than 64 dimensions"},
           {{.shape = {2}, .strides = {1}, .count = 5}, "which has 24 bytes, not 5 elements"},
           {{.shape = {2}, .strides = {1}, .count = large}, "which has 24 bytes, not 9223372036854775807 elements"},
           {{.shape = {2}, .strides = {1}, .count = 6, .key = "1"}, "lies in 'data/1', which the file lacks"},
           {{.shape = {2}, .strides = {1}, .count = 6, .key = "../0"}, "lies in 'data/../0', which the file lacks"},
           {{.shape = {2}, .strides = {1}, .count = 6, .storage = "ComplexFloatStorage"},
            "torch.ComplexFloatStorage, an element type that is not known here"}}) {
    INFO(words);
    CHECK(said(file_of(dict({{"w", tensor(one)}}))).find(words) != std::string::npos);
  }
  auto const w = tensor(whole);
  for (auto const& [bytes, words] : std::vector<std::pair<std::string, char const*>>{
           {file_of(w), "it holds no dict"},
           {file_of(dict({{"epoch", "N"}})), "no tensor in its state dict"},
           {file_of(dict({{"state_dict", w}})), "its 'state_dict' is no dict"},
           {file_of(dict({{"w", w}, {"w", w}})), "'w' occurs twice"},
           {file_of("}(" + integer(3) + w + "u"), "the name of a tensor is no text"},
           {file_of(dict({{"\xFF", w}})), "the name of a tensor is no text"},
           {zip_of({{"a/x", ""}}), "without a data.pkl"},
           {zip_of({{"a/data.pkl", ""}, {"b/data.pkl", ""}}), "two pickles are in it"},
           {zip_of({{"a/data.pkl", ""}, {"a/constants.pkl", ""}}), "a program of TorchScript"},
           {zip_of({{"a/data.pkl", ""}, {"a/byteorder", "big"}}), "not little endian"}}) {
    INFO(words);
    CHECK(said(bytes).find(words) != std::string::npos);
  }
}

TEST_CASE("pt: what is written is read, in 32 and in 64 bits, and twice the same bytes") {
  Folder const folder;
  auto const six = floats({0, 1, 2, 3, 4, 5});
  auto const write = [&](char const* name, std::uint64_t wide) {
    write_pt(
        folder / name,
        [&](auto&& f) {
          f(std::string_view("a.w"), WeightView{"F32", {2, 3}, std::as_bytes(std::span(six))});
          f(std::string_view("\xC3\xA4"), WeightView{"BF16", {}, std::as_bytes(std::span(six).first(2))});
          f(std::string_view("empty"), WeightView{"I64", {0}, {}});
        },
        wide);
  };
  write("a.pt", zip::elsewhere);
  write("b.pt", zip::elsewhere);
  write("wide.pt", 1);
  CHECK(content(folder / "a.pt") == content(folder / "b.pt"));
  for (auto const* name : {"a.pt", "wide.pt"}) {
    PtFile const file(folder / name);
    REQUIRE(file.entries().size() == 3);
    CHECK(file.find("a.w")->shape == std::vector<std::int64_t>{2, 3});
    CHECK(file.find("a.w")->strides == std::vector<std::int64_t>{3, 1});
    CHECK(read(file, "a.w") == six);
    CHECK(file.find("\xC3\xA4")->dtype == "BF16");
    CHECK(file.find("empty")->shape == std::vector<std::int64_t>{0});
  }
}

TEST_CASE("pt: wrong weights are refused before the old file is touched") {
  Folder const folder;
  put(folder / "a.pt", "old");
  auto const said = [&](std::vector<std::pair<std::string, WeightView>> const& weights) {
    auto text = error_of([&] {
      write_pt(folder / "a.pt", [&](auto&& f) {
        for (auto const& [name, view] : weights) f(std::string_view(name), view);
      });
    });
    CHECK(text.starts_with("[fulgurite.checkpoint.pt_weights] cannot write " + (folder / "a.pt").string()));
    CHECK(content(folder / "a.pt") == "old");
    CHECK(folder.files().size() == 1);
    return text;
  };
  auto const bytes = std::as_bytes(std::span("abcd", 4));
  CHECK(said({{"w", {"F99", {1}, bytes}}}).find("'w' has an element type or a shape") != std::string::npos);
  CHECK(said({{"w", {"F32", {2}, bytes}}}).find("'w' comes with more or fewer bytes") != std::string::npos);
  CHECK(said({{"\xFF", {"F32", {1}, bytes}}}).find("not UTF-8") != std::string::npos);
  CHECK(said({{"w", {"F32", {1}, bytes}}, {"w", {"F32", {1}, bytes}}}).find("'w' occurs twice") != std::string::npos);
}

TEST_CASE("pt: the file's name decides, and not its content") {
  for (auto const* name : {"a.pt", "a.pth", "a.ckpt", "pytorch_model.bin"}) CHECK(is_pt_name(name));
  for (auto const* name : {"a.safetensors", "a", "pt", "a.pt.gz", "a.PT2"}) CHECK_FALSE(is_pt_name(name));
}

TEST_CASE("pt: a file cut or flipped anywhere is refused, or read as it was") {
  auto const bytes = file_of(dict({{"w", tensor(whole)}}));
  auto const right = all_of(fuzz::MemoryFile(bytes).path());
  REQUIRE_FALSE(right.empty());
  for (std::size_t end = 0; end != bytes.size(); ++end) {
    CHECK(all_of(fuzz::MemoryFile(std::string_view(bytes).substr(0, end)).path()).empty());
  }
  for (std::size_t bit = 0; bit != 8 * bytes.size(); ++bit) {
    auto flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    auto const all = all_of(fuzz::MemoryFile(flipped).path());
    INFO(bit / 8);
    CHECK((all.empty() || all == right));
  }
}
