#include <bit>
#include <chrono>
#include <cmath>
#include <limits>
#include <random>

#include <fulgurite/core/archive.hpp>
#include <fulgurite/core/text.hpp>

#include "checkpoint_folder.hpp"

using namespace fulgurite;

namespace {
enum class Colour : std::uint8_t { red, green };

struct Inner {
  int n = 0;
  std::string text;
  void state(auto& archive) { archive("n", n)("text", text); }
};
struct Everything {
  bool flag = false;
  int i = 0;
  long l = 0;
  std::uint64_t seed = 0;
  double d = 0;
  float f = 0;
  Colour colour = Colour::red;
  std::string s;
  std::filesystem::path p;
  std::optional<double> none, some;
  std::vector<bool> bits;
  std::vector<std::optional<std::string>> names;
  std::array<long, 2> pair{};
  std::chrono::milliseconds pause{};
  std::chrono::duration<double> length{};
  std::vector<Inner> list;
  Inner inner;
  void state(auto& a) {
    a("flag", flag)("i", i)("l", l)("seed", seed)("d", d)("f", f)("colour", colour)("s", s)("p", p)("none",
                                                                                                    none)("some", some);
    a("bits", bits)("names", names)("pair", pair)("pause", pause)("length", length)("list", list).child("inner", inner);
  }
};
struct Keyless {
  using Stateless = ByChoice;
  int configuration = 3;
};
}  // namespace

TEST_CASE("an archive gives back what it took") {
  Everything one{true,
                 -7,
                 std::numeric_limits<long>::min(),
                 ~0ULL,
                 0.1,
                 0.1F,
                 Colour::green,
                 "a \"quoted\"\n\x01 \xC3\xA4 text",
                 "runs/x",
                 {},
                 2.5,
                 {true, false, true},
                 {"x", std::nullopt},
                 {1, -2},
                 std::chrono::milliseconds(1500),
                 std::chrono::duration<double>(0.25),
                 {{1, "a"}, {2, "b"}},
                 {3, std::string("\xFF\0raw", 5)}};
  auto const text = state_text(one);
  Everything two;
  two.none = 9.0;
  load_state_text(two, text);
  CHECK(state_text(two) == text);
  CHECK(two.seed == ~0ULL);
  CHECK(two.l == std::numeric_limits<long>::min());
  CHECK(two.f == 0.1F);
  CHECK(two.colour == Colour::green);
  CHECK_FALSE(two.none);
  CHECK(two.some == 2.5);
  CHECK(two.bits == one.bits);
  CHECK(two.names == one.names);
  CHECK(two.p == "runs/x");
  CHECK(two.pause == one.pause);
  CHECK(two.length == one.length);
  CHECK(two.list[1].text == "b");
  CHECK(two.inner.text == one.inner.text);
  CHECK(two.s == one.s);
}

TEST_CASE("the text is compact JSON") {
  Inner inner{3, "x"};
  CHECK(state_text(inner) == R"({"n":3,"text":"x"})");
}

TEST_CASE("doubles keep every bit") {
  std::mt19937_64 random(1);
  std::vector<double> values{0.0,
                             -0.0,
                             1.0,
                             1e22,
                             5e-324,
                             std::numeric_limits<double>::max(),
                             INFINITY,
                             -INFINITY,
                             NAN,
                             std::bit_cast<double>(0x7ff0000000000001ULL),
                             std::bit_cast<double>(0xfff8000000001234ULL)};
  for (int i = 0; i != 2000; ++i) values.push_back(std::bit_cast<double>(random()));
  ArchiveNode tree;
  StateSaver saver(tree);
  saver("values", values);
  auto const back = from_text(to_text(tree));
  std::vector<double> read;
  StateLoader loader(back);
  loader("values", read);
  REQUIRE(read.size() == values.size());
  std::size_t same = 0;
  for (std::size_t i = 0; i != values.size(); ++i)
    same += std::bit_cast<std::uint64_t>(values[i]) == std::bit_cast<std::uint64_t>(read[i]);
  CHECK(same == values.size());
}

TEST_CASE("a wrong entry is an error with its full name") {
  Everything from, to;
  ArchiveNode tree;
  StateSaver saver(tree);
  saver.child("callbacks", [&](auto& a) { a.child("EarlyStopping", from); });
  auto const loading = [&](auto&& spoil) {
    auto text = to_text(tree);
    spoil(text);
    auto const spoilt = from_text(text);
    StateLoader loader(spoilt);
    return error_of([&] { loader.child("callbacks", [&](auto& a) { a.child("EarlyStopping", to); }); });
  };
  auto const replace = [](std::string what, std::string by) {
    return [=](std::string& text) {
      auto const at = text.find(what);
      REQUIRE(at != std::string::npos);
      text.replace(at, what.size(), by);
    };
  };
  CHECK(loading([](auto&) {}).empty());
  CHECK(loading(replace(R"("i":)", R"("j":)"))
            .starts_with("[fulgurite.checkpoint.state_entry] 'callbacks.EarlyStopping.i' is not in the saved state"));
  CHECK(
      loading(replace(R"("i":0)", R"("i":0.5)")).find("'callbacks.EarlyStopping.i' should be an integer, but is 0.5") !=
      std::string::npos);
  CHECK(
      loading(replace(R"("i":0)", R"("i":3000000000)")).find("'callbacks.EarlyStopping.i' does not fit: 3000000000") !=
      std::string::npos);
  CHECK(loading(replace(R"("d":0.0)", R"("d":0)")).find("should be a floating-point number, but is 0") !=
        std::string::npos);
  CHECK(loading(replace(R"("pair":[0,0])", R"("pair":[0])")).find("should have 2 elements, but has 1") !=
        std::string::npos);
  CHECK(loading(replace(R"("pair":[0,0])", R"("pair":[0,"x"])"))
            .find("'callbacks.EarlyStopping.pair[1]' should be an integer") != std::string::npos);
  CHECK(loading(replace(R"("inner":{"n":0)", R"("inner":{"m":0)")).find("'callbacks.EarlyStopping.inner.n' is not") !=
        std::string::npos);
}

TEST_CASE("names are used once, and never start with a dollar") {
  ArchiveNode tree;
  StateSaver saver(tree);
  int n = 1;
  saver("n", n);
  CHECK(error_of([&] { saver("n", n); }) ==
        "[fulgurite.checkpoint.state_name] 'n' is saved twice: give each value its own name");
  CHECK(error_of([&] { saver("$bits", n); }).starts_with("[fulgurite.checkpoint.state_name]"));
}

TEST_CASE("what needs no state leaves no trace") {
  ArchiveNode tree;
  StateSaver saver(tree);
  Keyless keyless;
  saver.child("keyless", keyless);
  CHECK(to_text(tree) == "{}");
  StateLoader loader(tree);
  loader.child("keyless", keyless);
}

TEST_CASE("a text that is broken anywhere says where") {
  Everything one;
  one.inner.text = "ä";
  auto const text = state_text(one);
  for (std::size_t n = 0; n != text.size(); ++n) {
    INFO(n);
    auto const said = error_of([&] { from_text(text.substr(0, n), "file.safetensors"); });
    REQUIRE(said.starts_with("[fulgurite.checkpoint.state_text] file.safetensors, byte "));
  }
  for (char const* wrong : {"",
                            "{} x",
                            "{\"a\":1,}",
                            "[1,]",
                            "{\"a\" 1}",
                            "{'a':1}",
                            "01",
                            "+1",
                            "1.",
                            ".5",
                            "1e",
                            "nul",
                            "\"\\x\"",
                            "\"\\u12\"",
                            "\"\\ud800\"",
                            "\"\\udc00\"",
                            "\"\\ud800\\u0041\"",
                            "\"\xC0\x80\"",
                            "\"\xED\xA0\x80\"",
                            "\"\xF5\x80\x80\x80\"",
                            "\"\xE4\"",
                            "\"a\nb\"",
                            "{\"a\":1,\"a\":2}",
                            "{\"$bits\":\"zz\"}",
                            "{\"$bits\":\"\"}",
                            "{\"$other\":\"00\"}",
                            "{\"$bytes\":\"0\"}",
                            "{\"$bytes\":\"0g\"}",
                            "{\"$bits\":\"0\",\"a\":1}",
                            "99999999999999999999",
                            "1e999",
                            "-"}) {
    INFO(wrong);
    CHECK(error_of([&] { from_text(wrong); }).starts_with("[fulgurite.checkpoint.state_text] saved state, byte "));
  }
  CHECK(error_of([&] { from_text(std::string(1000, '[')); }).find("nested too deeply") != std::string::npos);
  CHECK(std::get<std::string>(from_text(R"("\u00e4\ud83d\ude00\n")").value) == "\xC3\xA4\xF0\x9F\x98\x80\n");
}
