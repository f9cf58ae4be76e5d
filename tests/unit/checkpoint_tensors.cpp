// Tensors of a run's state: in the data of the file, never as text in its header; and a state is loaded whole or not at
// all.
#include <cstring>
#include <numeric>
#include <vector>

#include <fulgurite/checkpoint/run_file.hpp>
#include <fulgurite/core/text.hpp>

#include "checkpoint_folder.hpp"
#include "checkpoint_sealed.hpp"

using namespace fulgurite;

namespace {
/// A tensor library in five lines: numbers on the host, which may be none.
struct Floats {
  std::vector<float> values = {};
};
SavedTensor tensor(std::string_view dtype, std::vector<std::int64_t> shape, std::string_view bytes) {
  auto const all = std::as_bytes(std::span(bytes));
  return {dtype, std::move(shape), std::vector<std::byte>(all.begin(), all.end())};
}
std::string bytes_of(SavedTensor const& from) {
  std::string text;
  from.read([&](SavedTensor::Bytes bytes) { text.assign(reinterpret_cast<char const*>(bytes.data()), bytes.size()); });
  return text;
}
constexpr auto no_weights = [](auto&&) {};

/// The header of a safetensors file and where its data begin, read by nobody's code but this.
std::pair<std::string, std::size_t> header_of(std::string const& file) {
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), 8);
  return {file.substr(8, length), 8 + length};
}
/// The bytes of one tensor by the same simple means: the text after its name has its offsets.
std::string data_of(std::string const& file, std::string const& name) {
  auto const [header, data] = header_of(file);
  auto at = header.find("\"" + name + "\":{\"dtype\"");
  REQUIRE(at != std::string::npos);
  at = header.find("\"data_offsets\":[", at) + 16;
  std::size_t used = 0;
  auto const begin = std::stoull(header.substr(at), &used), end = std::stoull(header.substr(at + used + 1));
  return file.substr(data + begin, end - begin);
}

/// What an averaging callback keeps: tensors by the hundred, and a few numbers.
struct Average {
  long averaged = 0;
  std::vector<Floats> values = {};
  void state(auto& archive) { archive("n_averaged", averaged)("values", values); }
};
}  // namespace

template <>
struct fulgurite::TensorState<Floats> {
  static SavedTensor save(Floats const& from) {
    if (from.values.empty()) return {};
    return {"F32", {static_cast<std::int64_t>(from.values.size())}, [&from](auto const& take) {
              take(std::as_bytes(std::span(from.values)));
            }};
  }
  static void load(Floats& to, SavedTensor const& from, std::string const& name) {
    if (from && from.dtype() != "F32") throw Error("fulgurite.test.type", name + " is of type " + from.dtype());
    to.values.resize(from.size() / sizeof(float));
    from.read([&](SavedTensor::Bytes bytes) {
      if (!bytes.empty()) std::memcpy(to.values.data(), bytes.data(), bytes.size());
    });
  }
};

TEST_CASE("tensors: a state of 13 million floats takes their bytes, and is read back") {
  Folder const folder;
  Average average{7, std::vector<Floats>(130)};
  for (auto& one : average.values) {
    one.values.resize(100'000);
    std::iota(one.values.begin(), one.values.end(), static_cast<float>(&one - average.values.data()));
  }
  save_run_file(folder / "run", no_weights, [&](auto& archive) { archive.child("callback.0", average); });
  CHECK(std::filesystem::file_size(folder / "run") < 52'000'000 + 32'768);
  Average back;
  load_state(run_state(SafetensorsFile(folder / "run")), [&](auto& archive) { archive.child("callback.0", back); });
  CHECK(back.averaged == 7);
  REQUIRE(back.values.size() == 130);
  bool same = true;
  for (std::size_t i = 0; i != 130; ++i) same = same && back.values[i].values == average.values[i].values;
  CHECK(same);
}

TEST_CASE("tensors: every element type, scalars, empty ones and none at all") {
  Folder const folder;
  std::vector<SavedTensor> all, back;
  for (auto const& type : safetensors::element_types)
    for (std::size_t const count : {std::size_t{0}, std::size_t{1}, std::size_t{3}}) {
      std::string const bytes(type.size * count, static_cast<char>('a' + all.size()));
      if (count == 1) all.push_back(tensor(type.name, {}, bytes));
      else all.push_back(tensor(type.name, {static_cast<std::int64_t>(count), 1}, bytes));
    }
  all.emplace_back();
  std::optional<SavedTensor> something = all[4], nothing = std::nullopt, none = all[5];
  Floats const empty{};
  Floats filled{{1, 2}}, left{{3}};
  save_run_file(folder / "run", no_weights, [&](auto& archive) {
    archive("all", all)("something", something)("nothing", nothing).tensor("empty", empty).tensor("filled", filled);
  });
  filled = {};
  something.reset();
  auto const state = run_state(SafetensorsFile(folder / "run"));
  StateLoader loader(state);
  loader("all", back)("something", something)("nothing", none).tensor("empty", left).tensor("filled", filled);
  REQUIRE(back.size() == all.size());
  for (std::size_t i = 0; i != all.size(); ++i) {
    CAPTURE(i);
    CHECK(back[i].dtype() == all[i].dtype());
    CHECK(back[i].shape() == all[i].shape());
    CHECK(bytes_of(back[i]) == bytes_of(all[i]));
  }
  CHECK_FALSE(back.back());
  REQUIRE(something);
  CHECK(bytes_of(*something) == bytes_of(all[4]));
  CHECK_FALSE(none);
  CHECK(left.values.empty());
  CHECK(filled.values == std::vector<float>{1, 2});
}

TEST_CASE("tensors: they stand beside the weights, under one prefix, aligned, and the header names them") {
  Folder const folder;
  Floats average{{0.5F, 2}};
  auto const odd = tensor("U8", {3}, "xyz"), wide = tensor("F64", {1}, "12345678");
  auto const weights = [](auto&& f) {
    f(std::string_view("layer.weight"), WeightView{"F32", {1}, std::as_bytes(std::span("abcd", 4))});
  };
  save_run_file(folder / "run", weights, [&](auto& archive) {
    archive.child("callback.0",
                  [&](auto& inner) { inner.tensor("odd", odd).tensor("average", average).tensor("wide", wide); });
  });
  auto const text = content(folder / "run");
  CHECK(data_of(text, "layer.weight") == "abcd");
  CHECK(data_of(text, "fulgurite:callback.0.odd") == "xyz");
  CHECK(data_of(text, "fulgurite:callback.0.wide") == "12345678");
  CHECK(data_of(text, "fulgurite:callback.0.average") == std::string("\0\0\0\x3f\0\0\0\x40", 8));
  auto const [header, data] = header_of(text);
  CHECK(header.find(R"({\"callback.0\":{\"odd\":{\"$tensor\":\"callback.0.odd\"},)") != std::string::npos);
  SafetensorsFile const file(folder / "run");
  for (auto const& entry : file.entries()) CHECK((data + entry.begin) % *safetensors::element_size(entry.dtype) == 0);
}

TEST_CASE("tensors: a weight of such a name is refused; the old file stays") {
  Folder const folder;
  put(folder / "run", "old");
  auto const weights = [](auto&& f) {
    f(std::string_view("fulgurite:a"), WeightView{"U8", {1}, std::as_bytes(std::span("a", 1))});
  };
  CHECK(error_of([&] {
          save_run_file(folder / "run", weights, [](auto&) {});
        }).starts_with("[fulgurite.checkpoint.weights] cannot write "));
  CHECK(content(folder / "run") == "old");
  CHECK(folder.files().size() == 1);
}

TEST_CASE("tensors: a file is read whole or not at all, and what was to be loaded stays as it was") {
  Folder const folder;
  Average average{7, {{{1, 2}}, {{3}}}};
  save_run_file(folder / "run", no_weights, [&](auto& archive) { archive.child("a", average); });
  auto const text = content(folder / "run");
  auto const spoilt = [&](std::string const& now) {
    put(folder / "bad", now);
    Average kept{1, {{{9}}}};
    auto const said = error_of([&] {
      load_state(run_state(SafetensorsFile(folder / "bad")), [&](auto& archive) { archive.child("a", kept); });
    });
    CHECK(kept.averaged == 1);
    CHECK(kept.values.size() == 1);
    CHECK(kept.values.at(0).values == std::vector<float>{9});
    return said;
  };
  auto const replaced = [&](std::string const& what, std::string const& by) {
    REQUIRE(what.size() == by.size());
    auto now = text;
    auto const at = now.find(what);
    REQUIRE(at != std::string::npos);
    return spoilt(sealed(now.replace(at, what.size(), by)));
  };
  for (std::size_t n = 0; n < text.size(); n += 3)
    REQUIRE(spoilt(text.substr(0, n)).starts_with("[fulgurite.checkpoint.safetensors] "));
  std::string const tensors = "[fulgurite.checkpoint.state_tensor] " + (folder / "bad").string();
  CHECK(replaced(R"("fulgurite:a.values[1]")", R"("fulgurite:a.values[2]")")
            .starts_with(tensors + " lacks a tensor of the run's state, 'fulgurite:a.values[1]': "));
  CHECK(replaced(R"($tensor\":\"a.values[1]\")", R"($tensor\":\"a.values[0]\")")
            .starts_with(tensors + " uses twice a tensor of the run's state, 'fulgurite:a.values[0]': "));
  std::string const second = R"(,{\"$tensor\":\"a.values[1]\"}])";
  CHECK(replaced(second, "]" + std::string(second.size() - 1, ' '))
            .starts_with(tensors + " holds a tensor that the run's state does not know, 'fulgurite:a.values[1]': "));
  CHECK(replaced(R"("F32","shape":[2])", R"("I32","shape":[2])") == "[fulgurite.test.type] a.values[0] is of type I32");
  CHECK(replaced(R"(\"values\":[)", R"(\"valuez\":[)").find("'a.values' is not in the saved state") !=
        std::string::npos);
  CHECK(replaced(R"(\"n_averaged\":7)", R"(\"n_averaged\":[)").starts_with("[fulgurite.checkpoint.state_text] "));
}

TEST_CASE("tensors: what is no file's has its bytes in the text") {
  Average one{2, {{{0.5F}}, {}}}, two;
  auto const text = state_text(one);
  CHECK(text == R"({"n_averaged":2,"values":[{"$tensor":{"dtype":"F32","shape":[1],"bytes":"0000003f"}},null]})");
  load_state_text(two, text);
  CHECK(two.values.at(0).values == std::vector<float>{0.5F});
  CHECK(two.values.at(1).values.empty());
  for (char const* wrong :
       {R"({"$tensor":"a"})", R"({"$tensor":{}})", R"({"$tensor":{"dtype":"F32","shape":[1],"bytes":"000000"}})",
        R"({"$tensor":{"dtype":"F32","shape":[1],"bytes":"0000003"}})",
        R"({"$tensor":{"dtype":"F32","shape":[-1],"bytes":""}})",
        R"({"$tensor":{"dtype":"F33","shape":[1],"bytes":"0000003f"}})",
        R"({"$tensor":{"dtype":"F32","shape":[0.5],"bytes":"0000003f"}})",
        R"({"$tensor":{"dtype":"F32","dtype":"F32","shape":[1],"bytes":"0000003f"}})",
        R"({"$tensor":{"dtype":"F32","bytes":""}})",
        R"({"$tensor":{"dtype":"F32","shape":[1],"bytes":"0000003f","more":1}})",
        R"({"$tensor":{"dtype":"F32","shape":[1],"bytes":"zz00003f"}})",
        R"({"$tensor":{"dtype":"U8","shape":[9223372036854775807,3],"bytes":""}})", R"({"$tensor":3})",
        R"({"$tensor":"a","b":1})"}) {
    INFO(wrong);
    CHECK(error_of([&] { from_text(wrong); }).starts_with("[fulgurite.checkpoint.state_text] saved state, byte "));
  }
}

TEST_CASE("tensors: a tree keeps what was saved, whatever becomes of the tensor") {
  Floats live{{1}}, back;
  ArchiveNode tree;
  StateSaver saver(tree);
  saver.tensor("t", live);
  live.values[0] = 5;
  StateLoader loader(tree);
  loader.tensor("t", back);
  CHECK(back.values == std::vector<float>{1});
}

TEST_CASE("tensors: bytes that are not the shape's are refused, and so is a tensor where a number was saved") {
  CHECK(error_of([] { tensor("F32", {2}, "1234"); }).starts_with("[fulgurite.checkpoint.saved_tensor] "));
  CHECK(error_of([] { tensor("C128", {1}, "1234567812345678"); }).starts_with("[fulgurite.checkpoint.saved_tensor] "));
  auto const tree = from_text(R"({"n":1,"t":{"$tensor":{"dtype":"U8","shape":[3],"bytes":"000000"}}})");
  StateLoader loader(tree);
  Floats floats;
  long number = 0;
  CHECK(error_of([&] { loader.tensor("n", floats); }) ==
        "[fulgurite.checkpoint.state_entry] 'n' should be a tensor, but is 1");
  CHECK(error_of([&] { loader("t", number); }) ==
        "[fulgurite.checkpoint.state_entry] 't' should be an integer, but is the tensor U8 [3]");
}

TEST_CASE("a state whose text no header can hold names the part that is too long, and the cure") {
  Folder const folder;
  std::string const large(1000, '"');  // the text is quoted, and quoted once more in the header
  int small = 1;
  auto const saved = [&](std::uint64_t longest) {
    return error_of([&] {
      save_run_file(
          folder / "run", no_weights,
          [&](auto& archive) {
            archive("small", small).child("callback.3", [&](auto& inner) { inner("log", large); });
          },
          {}, {}, longest);
    });
  };
  std::string const text = R"({"small":1,"callback.3":{"log":"..."}})";
  auto const size = text.size() - 3 + 8 + 4000;
  auto const said = saved(size - 1);
  CHECK(said == "[fulgurite.checkpoint.state_size] cannot write " + (folder / "run").string() +
                    ": the state of 'callback.3' is a text of 2010 bytes, and the header of a file holds " +
                    std::to_string(size - 1) + ": keep large values as tensors, by archive.tensor(name, tensor)");
  CHECK(folder.files().empty());
  CHECK(saved(size).empty());
}

namespace {
/// An object that finds out late that its state does not fit: `twice` must be two times `once`.
struct Picky {
  int once = 1, twice = 2;
  std::vector<int> list = {1};
  std::optional<int> maybe = std::nullopt;
  void state(auto& archive) {
    archive("once", once)("list", list)("maybe", maybe)("twice", twice);
    if (twice != 2 * once) throw Error("fulgurite.test.picky", "not two times");
  }
};
}  // namespace

TEST_CASE("a state that does not fit changes nothing, wherever that comes out") {
  for (char const* wrong :
       {R"({"once":2,"list":[2,3],"maybe":7,"twice":5})", R"({"once":2,"list":[2,3],"maybe":7,"twice":"4"})",
        R"({"once":2,"list":[2,3],"maybe":7})", R"({"once":2,"list":[2,"x"],"maybe":7,"twice":4})",
        R"({"once":2,"list":[2,3],"maybe":"x","twice":4})", R"({"once":2,"list":5,"maybe":7,"twice":4})",
        R"({"once":2,"list":[2,3],"maybe":7,"twice":4000000000000})", R"([])",
        R"({"once":0.5,"list":[],"maybe":null,"twice":1})"}) {
    INFO(wrong);
    Picky picky;
    CHECK_FALSE(error_of([&] { load_state_text(picky, wrong); }).empty());
    CHECK(picky.once == 1);
    CHECK(picky.twice == 2);
    CHECK(picky.list == std::vector<int>{1});
    CHECK_FALSE(picky.maybe);
  }
  Picky picky;
  load_state_text(picky, R"({"once":2,"list":[2,3],"maybe":7,"twice":4})");
  CHECK(picky.maybe == 7);
}

// Each look-up took time in proportion to the names, so that this took minutes.
TEST_CASE("a state may have any number of names") {
  constexpr int count = 50'000;
  std::vector<std::string> names;
  for (int i = 0; i != count; ++i) names.push_back("name" + std::to_string(i));
  ArchiveNode tree;
  StateSaver saver(tree);
  for (int i = 0; i != count; ++i) saver(names[static_cast<std::size_t>(i)], i);
  auto const back = from_text(to_text(tree));
  StateLoader loader(back);
  long sum = 0;
  for (auto const& name : names) {
    int value = 0;
    loader(name, value);
    sum += value;
  }
  CHECK(sum == long{count} * (count - 1) / 2);
  CHECK(error_of([&] { saver(names.back(), sum); }).starts_with("[fulgurite.checkpoint.state_name]"));
}
