#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

#include <fulgurite/checkpoint/run_file.hpp>
#include <fulgurite/core/text.hpp>

#include "checkpoint_folder.hpp"

using namespace fulgurite;

namespace {
struct Weight {
  std::string name, dtype;
  std::vector<std::int64_t> shape;
  std::string bytes;
};
auto handing(std::vector<Weight> const& weights) {
  return [&weights](auto&& f) {
    for (auto const& w : weights)
      f(std::string_view(w.name), WeightView{w.dtype, w.shape, std::as_bytes(std::span(w.bytes))});
  };
}
std::string read(SafetensorsFile const& file, std::string const& name) {
  auto const* entry = file.find(name);
  REQUIRE(entry != nullptr);
  std::string bytes(entry->end - entry->begin, '?');
  file.read(*entry, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}
std::string file_of(std::string const& header, std::string const& data = "") {
  std::string text(8, '\0');
  std::uint64_t const length = header.size();
  std::memcpy(text.data(), &length, 8);
  return text + header + data;
}
std::string some(std::size_t n) {
  std::string bytes(n, '\0');
  for (std::size_t i = 0; i != n; ++i) bytes[i] = static_cast<char>(i * 7 + 1);
  return bytes;
}
// One of each element type, a scalar, an empty one, a name and a text that need escapes.
std::vector<Weight> const all{{"flag", "BOOL", {3}, some(3)},
                              {"w", "F32", {2, 3}, some(24)},
                              {"double", "F64", {1}, some(8)},
                              {"half", "F16", {1, 1, 3}, some(6)},
                              {"brain", "BF16", {2}, some(4)},
                              {"long", "I64", {2}, some(16)},
                              {"int", "I32", {1}, some(4)},
                              {"short", "I16", {5}, some(10)},
                              {"char", "I8", {7}, some(7)},
                              {"byte", "U8", {1}, some(1)},
                              {"scalar", "F32", {}, some(4)},
                              {"empty", "F32", {0, 4}, ""},
                              {"b \"q\" \n \xC3\xA4", "F32", {1}, some(4)}};
Metadata const texts{{"epoch", "3"}, {"note", "line\n\"quoted\" \xF0\x9F\x8C\xA9"}};
}  // namespace

TEST_CASE("safetensors: what is written is read") {
  Folder const folder;
  auto const path = folder / "a.safetensors";
  write_safetensors(path, texts, handing(all));
  SafetensorsFile const file(path);
  CHECK(file.metadata() == texts);
  CHECK(file.entries().size() == all.size());
  for (auto const& w : all) {
    INFO(w.name);
    auto const* entry = file.find(w.name);
    REQUIRE(entry != nullptr);
    CHECK(entry->dtype == w.dtype);
    CHECK(entry->shape == w.shape);
    CHECK(read(file, w.name) == w.bytes);
  }
  CHECK(file.find("nothing") == nullptr);
}

TEST_CASE("safetensors: the header is padded to 8 bytes and each tensor is aligned to its elements") {
  Folder const folder;
  write_safetensors(folder / "a", texts, handing(all));
  auto const text = content(folder / "a");
  std::uint64_t length = 0;
  std::memcpy(&length, text.data(), 8);
  CHECK(length % 8 == 0);
  CHECK(text[8] == '{');
  SafetensorsFile const file(folder / "a");
  for (auto const& entry : file.entries()) {
    INFO(entry.name);
    CHECK((8 + length + entry.begin) % *safetensors::element_size(entry.dtype) == 0);
  }
}

TEST_CASE("safetensors: the bytes are the format's") {
  Folder const folder;
  write_safetensors(folder / "a", {{"k", "v"}}, handing({{"w", "F32", {1}, "abcd"}}));
  CHECK(content(folder / "a") ==
        file_of(R"({"__metadata__":{"k":"v"},"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}} )", "abcd"));
  write_safetensors(folder / "b", {}, handing({}));
  CHECK(content(folder / "b") == file_of("{}      "));
  SafetensorsFile const empty(folder / "b");
  CHECK(empty.entries().empty());
}

TEST_CASE("safetensors: a file cut off anywhere is refused with its name and the byte", "[long]") {
  Folder const folder;
  write_safetensors(folder / "a", texts, handing(all));
  auto const text = content(folder / "a");
  auto const cut = folder / "cut";
  for (std::size_t n = 0; n != text.size(); ++n) {
    put(cut, text.substr(0, n));
    auto const said = error_of([&] { SafetensorsFile{cut}; });
    INFO(n << " " << said);
    REQUIRE(said.starts_with("[fulgurite.checkpoint.safetensors] " + cut.string() + ", byte "));
  }
  put(cut, text + "x");
  CHECK(error_of([&] { SafetensorsFile{cut}; }).find("1 bytes belong to no tensor") != std::string::npos);
}

TEST_CASE("safetensors: no byte of the header can be changed into something dangerous", "[long]") {
  Folder const folder;
  write_safetensors(folder / "a", {}, handing({{"w", "F32", {2}, some(8)}, {"v", "U8", {3}, some(3)}}));
  auto const text = content(folder / "a");
  auto const bad = folder / "bad";
  for (std::size_t at = 0; at != text.size() - 11; ++at)
    for (char const c : {'\0', '9', '"', '{', '}', ',', ':', '\xFF', '-'}) {
      auto changed = text;
      changed[at] = c;
      put(bad, changed);
      INFO(at << " " << int(c));
      std::uint64_t total = 0;
      auto const said = error_of([&] {
        SafetensorsFile const file(bad);
        for (auto const& entry : file.entries()) total += read(file, entry.name).size();
      });
      REQUIRE((said.starts_with("[fulgurite.checkpoint.safetensors] " + bad.string()) || total == 11));
    }
}

TEST_CASE("safetensors: headers that lie") {
  Folder const folder;
  auto const path = folder / "bad";
  auto const said = [&](std::string const& header, std::string const& data = "abcd") {
    put(path, file_of(header, data));
    return error_of([&] { SafetensorsFile{path}; });
  };
  auto const one = [](std::string const& rest) { return R"({"w":{"dtype":"F32","shape":[1],)" + rest + "}}"; };
  CHECK(said(one(R"("data_offsets":[0,4])")).empty());
  struct Lie {
    std::string header, words;
  };
  for (auto const& [header, words] : std::vector<Lie>{
           {" " + one(R"("data_offsets":[0,4])"), "a header starts with '{'"},
           {"[]", "a header starts with '{'"},
           {"", "a header starts with '{'"},
           {one(R"("data_offsets":[0,4])") + "x", "nothing more expected"},
           {one(R"("data_offsets":[0,3])"), "'w' should have 4 bytes, but its data_offsets are [0,3]"},
           {one(R"("data_offsets":[4,0])"), "'w' should have 4 bytes"},
           {one(R"("data_offsets":[0,4,8])"), "needs two data_offsets"},
           {one(R"("data_offsets":[-1,3])"), "'-1' is not an integer in range"},
           {one(R"("data_offsets":[0.0,4])"), "is not an integer in range"},
           {one(R"("data_offsets":[1,5])"), "starts at byte 1 of the data, not at 0"},
           {one(R"("data_offsets":[0,4],"more":1)"), "unknown member 'more'"},
           {one(R"("data_offsets":[0,4],"dtype":"F32")"), "occurs twice"},
           {R"({"w":{"dtype":"F32","shape":[1]}})", "needs dtype, shape and data_offsets"},
           {R"({"w":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}})", "unknown element type 'F31'"},
           {R"({"w":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "negative extent"},
           {R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "the file ends inside 'w'"},
           {R"({"w":{"dtype":"F32","shape":[4611686018427387904,4611686018427387904],"data_offsets":[0,0]}})",
            "too large for any memory"},
           {R"({"w":{"dtype":"F32","shape":[9223372036854775807],"data_offsets":[0,4]}})", "too large for any memory"},
           {R"({"w":{"dtype":"F32","shape":[99999999999999999999],"data_offsets":[0,4]}})", "not an integer in range"},
           {R"({"w":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
            R"("v":{"dtype":"U8","shape":[3],"data_offsets":[1,4]}})",
            "overlap, or leave a gap"},
           {R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
            R"("v":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
            "overlap, or leave a gap"},
           {R"({"w":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
            R"("w":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
            "'w' occurs twice"},
           {R"({"__metadata__":{"a":1}})", "'\"' expected"},
           {R"({"__metadata__":{"a":"1","a":"2"}})", "occurs twice"},
           {R"({"__metadata__":{},"__metadata__":{}})", "'__metadata__' occurs twice"},
           {R"({})", "4 bytes belong to no tensor"}}) {
    INFO(header);
    auto const text = said(header);
    CHECK(text.starts_with("[fulgurite.checkpoint.safetensors] " + path.string() + ", byte "));
    CHECK(text.find(words) != std::string::npos);
  }
  put(path, std::string("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 8));
  CHECK(error_of([&] { SafetensorsFile{path}; }).find("this is not a safetensors file") != std::string::npos);
  put(path, std::string("\x10\0\0\0\0\0\0\0{}", 10));
  CHECK(error_of([&] { SafetensorsFile{path}; }) == "[fulgurite.checkpoint.safetensors] " + path.string() +
                                                        ", byte 10: the file ends inside its header of 16 bytes");
  CHECK(error_of([&] {
          SafetensorsFile{folder / "none"};
        }).find("cannot open " + (folder / "none").string() + ": No such file or directory (errno 2)") !=
        std::string::npos);
  CHECK(error_of([&] { SafetensorsFile{folder.path}; }).find("not a regular file") != std::string::npos);
}

TEST_CASE("safetensors: wrong weights are refused before the old file is touched") {
  Folder const folder;
  auto const path = folder / "a";
  put(path, "old");
  auto const said = [&](std::vector<Weight> const& weights, Metadata const& metadata = {}) {
    auto text = error_of([&] { write_safetensors(path, metadata, handing(weights)); });
    CHECK(content(path) == "old");
    CHECK(folder.files().size() == 1);
    return text;
  };
  CHECK(said({{"w", "F32", {2}, "abcd"}}) ==
        "[fulgurite.checkpoint.weights] cannot write " + path.string() + ": the tensor 'w' comes as 4 bytes, not 8");
  CHECK(said({{"w", "F99", {1}, "abcd"}}).find("does not have: F99") != std::string::npos);
  CHECK(said({{"w", "F32", {-1}, "abcd"}}).find("'w' has an element type or a shape") != std::string::npos);
  CHECK(said({{"w", "U8", {1}, "a"}, {"w", "U8", {1}, "a"}}).find("'w' occurs twice") != std::string::npos);
  CHECK(said({{"__metadata__", "U8", {1}, "a"}}).find("has a name the format does not allow") != std::string::npos);
  CHECK(said({{"\xFF", "U8", {1}, "a"}}).find("has a name the format does not allow") != std::string::npos);
  CHECK(said({}, {{"k", "\xFF"}}).find("the metadata 'k' is not UTF-8") != std::string::npos);
}

TEST_CASE("safetensors: an exception while the bytes are fetched leaves the old file") {
  Folder const folder;
  put(folder / "a", "old");
  int calls = 0;
  auto const each = [&](auto&& f) {
    if (++calls == 2) throw Error("fulgurite.test.device", "the device is gone");
    f(std::string_view("w"), WeightView{"U8", {1}, std::as_bytes(std::span("x", 1))});
  };
  CHECK(error_of([&] { write_safetensors(folder / "a", {}, each); }) == "[fulgurite.test.device] the device is gone");
  CHECK(content(folder / "a") == "old");
  CHECK(folder.files().size() == 1);
}

TEST_CASE("safetensors: a tensor is read into exactly its size") {
  Folder const folder;
  write_safetensors(folder / "a", {}, handing({{"w", "U8", {4}, "abcd"}}));
  SafetensorsFile const file(folder / "a");
  std::array<std::byte, 3> small{};
  CHECK(error_of([&] { file.read(file.entries()[0], small); }).find("'w' has 4 bytes, not 3") != std::string::npos);
  put(folder / "a", "short");  // the same file, truncated while it is open
  std::array<std::byte, 4> right{};
  CHECK(error_of([&] { file.read(file.entries()[0], right); }).find("became shorter while it was read") !=
        std::string::npos);
}

TEST_CASE("a run's state travels in the metadata") {
  Folder const folder;
  long step = 7;
  double best = -0.0;
  save_run_file(folder / "run", handing({{"w", "U8", {1}, "x"}}),
                [&](auto& archive) { archive("step", step)("best", best); }, {}, {{"note", "hello"}});
  SafetensorsFile const file(folder / "run");
  CHECK(file.metadata().at("note") == "hello");
  step = 0;
  best = 1;
  auto const state = run_state(file);
  StateLoader loader(state);
  loader("step", step)("best", best);
  CHECK(step == 7);
  CHECK(std::signbit(best));
  write_safetensors(folder / "bare", {}, handing({}));
  CHECK(error_of([&] {
          run_state(SafetensorsFile(folder / "bare"));
        }).starts_with("[fulgurite.checkpoint.no_run_state]"));
}
