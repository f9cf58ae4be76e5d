// The hyper-parameters of a sweep: lists, grids and draws, and what is refused of them.
#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/tuner/space.hpp>

#include "models.hpp"

using namespace fulgurite;
using tune::values;

// In a namespace with a name: g++ warns of a type of the library that has a member of an unnamed one's type, except in
// the file that is compiled, and this one may be included.
namespace tuner_space_settings {
enum class Kind { small, large };
struct Setting {
  double rate = 0.5;
  long width = 7;
  bool deep = false;
  std::string name = "net";
  Kind kind = Kind::small;
  float drop = 0;
  void hyperparameters(auto& list) const { list("rate", rate)("width", width)("name", name); }
};
}  // namespace tuner_space_settings
using namespace tuner_space_settings;

namespace {

static_assert(tune::field_name<&Setting::rate>() == "rate");
static_assert(tune::field_name<&Setting::name>() == "name");

std::vector<std::string> shown(tune::Space<Setting> const& space, std::size_t i) {
  std::vector<std::string> all;
  for (auto const& column : space.columns) all.push_back(column.name + "=" + column.text(space.settings[i], true));
  return all;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("a grid has all combinations, the last field fastest; other fields keep their defaults") {
  auto const space = tune::grid(values<&Setting::rate>(0.1, 1e-3), values<&Setting::deep>(true, false),
                                values<&Setting::name>("a", "b"));
  REQUIRE(space.settings.size() == 8);
  CHECK(shown(space, 0) == Texts{"rate=0.1", "deep=true", "name=a"});
  CHECK(shown(space, 1) == Texts{"rate=0.1", "deep=true", "name=b"});
  CHECK(shown(space, 2) == Texts{"rate=0.1", "deep=false", "name=a"});
  CHECK(shown(space, 7) == Texts{"rate=0.001", "deep=false", "name=b"});
  CHECK(space.settings[7].width == 7);
  auto const wide = tune::grid_from(Setting{.width = 9}, values<&Setting::rate>(1, 2));
  CHECK(wide.settings[1].width == 9);
  CHECK(wide.settings[1].rate == 2.0);
}

TEST_CASE("a whole number that a field cannot hold is an Error") {
  struct Narrow {
    unsigned char depth = 0;
  };
  CHECK(values<&Narrow::depth>(1, 255).all == std::vector<unsigned char>{1, 255});
  CHECK(toy::refusal([] { values<&Narrow::depth>(256); }) == "fulgurite.tune.range");
  CHECK(toy::refusal([] { values<&Narrow::depth>(-1); }) == "fulgurite.tune.range");
}

TEST_CASE("values that only the run knows, and those of enums and floats") {
  auto const space = tune::grid(values<&Setting::width>(std::vector<long>{1, 2, 3}),
                                values<&Setting::kind>(Kind::small, Kind::large), values<&Setting::drop>(0.1F));
  REQUIRE(space.settings.size() == 6);
  CHECK(shown(space, 5) == Texts{"width=3", "kind=1", "drop=0.100000001"});
}

TEST_CASE("draws lie within their bounds, and setting i is the same however many are drawn") {
  auto const drawn = [](long n, std::uint64_t seed) {
    return tune::draws({.count = n, .seed = seed}, tune::log_uniform<&Setting::rate>(1e-4, 1e-1),
                       tune::uniform<&Setting::width>(3, 5), tune::choice<&Setting::name>("x", "y"),
                       tune::uniform<&Setting::drop>(0.25F, 0.5F));
  };
  auto const many = drawn(300, 1), few = drawn(3, 1), others = drawn(3, 2);
  std::set<long> widths;
  std::set<std::string> names;
  int decades[3] = {};
  for (auto const& s : many.settings) {
    CHECK((s.rate >= 1e-4 && s.rate <= 1e-1));
    CHECK((s.drop >= 0.25F && s.drop <= 0.5F));
    ++decades[s.rate < 1e-3 ? 0 : s.rate < 1e-2 ? 1 : 2];
    widths.insert(s.width);
    names.insert(s.name);
  }
  CHECK(widths == std::set<long>{3, 4, 5});
  CHECK(names == std::set<std::string>{"x", "y"});
  for (int const count : decades) CHECK(count > 60);  // an even draw would leave 3 of 300 below 1e-2
  for (std::size_t i = 0; i != 3; ++i) {
    CHECK(shown(few, i) == shown(many, i));
    CHECK(shown(few, i) != shown(others, i));
  }
}

TEST_CASE("whole numbers on a logarithmic scale reach both bounds") {
  auto const space = tune::draws({.count = 400}, tune::log_uniform<&Setting::width>(1, 4));
  std::vector<int> count(5);
  for (auto const& s : space.settings) {
    REQUIRE((s.width >= 1 && s.width <= 4));
    ++count[static_cast<std::size_t>(s.width)];
  }
  CHECK(count[1] > count[2]);
  CHECK(count[2] > count[4]);
  CHECK(count[4] > 20);
}

TEST_CASE("a list shows what its settings declare") {
  auto const space = tune::list<Setting>({{.rate = 1}, {.rate = 2, .name = "b"}});
  REQUIRE(space.settings.size() == 2);
  CHECK(shown(space, 0) == Texts{"rate=1", "width=7", "name=net"});
  CHECK(shown(space, 1) == Texts{"rate=2", "width=7", "name=b"});
  CHECK(tune::grid(values<&Setting::rate>(1.0 / 3)).columns[0].text({.rate = 1.0 / 3}, false) == "0.333333");
}

TEST_CASE("what makes no space is an Error") {
  std::string said;
  CHECK(toy::refusal([] { values<&Setting::rate>(std::vector<double>{}); }, &said) == "fulgurite.tune.empty");
  CHECK(said.find("values<&rate>") != std::string::npos);
  CHECK(toy::refusal([] { tune::list(std::vector<Setting>{}); }) == "fulgurite.tune.empty");
  CHECK(toy::refusal([] { tune::draws({.count = 0}, tune::choice<&Setting::width>(1)); }) == "fulgurite.tune.empty");
  CHECK(toy::refusal([] { tune::draws({.count = -3}, tune::choice<&Setting::width>(1)); }) == "fulgurite.tune.empty");
  CHECK(toy::refusal([] { tune::uniform<&Setting::rate>(2, 1); }, &said) == "fulgurite.tune.range");
  CHECK(said.find("uniform<&rate>(2, 1)") != std::string::npos);
  CHECK(toy::refusal([] { tune::log_uniform<&Setting::rate>(0, 1); }) == "fulgurite.tune.range");
  CHECK(toy::refusal([] { tune::log_uniform<&Setting::rate>(-1, 1); }) == "fulgurite.tune.range");
  double const nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  CHECK(toy::refusal([&] { tune::uniform<&Setting::rate>(nan, 1); }) == "fulgurite.tune.range");
  CHECK(toy::refusal([&] { tune::uniform<&Setting::rate>(0, infinity); }) == "fulgurite.tune.range");
}
