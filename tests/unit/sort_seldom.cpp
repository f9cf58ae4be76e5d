#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <fulgurite/core/types.hpp>
#include <fulgurite/data/sampler.hpp>

using namespace fulgurite;

TEST_CASE("sort_seldom sorts as std::sort does, also where much is equal") {
  data::Random random{3, 0};
  for (std::size_t size = 0; size != 70; ++size) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i != size; ++i) names.push_back(std::to_string(random() % (size % 2 == 0 ? 5 : 1000)));
    auto expected = names;
    std::sort(expected.begin(), expected.end());
    sort_seldom(names);
    REQUIRE(names == expected);
    sort_seldom(names, [](std::string const& a, std::string const& b) { return a > b; });
    std::reverse(expected.begin(), expected.end());
    REQUIRE(names == expected);
  }
}

TEST_CASE("sort_seldom compares no more than 2 n log n times, whatever the order was") {
  for (bool const falling : {false, true}) {
    std::vector<int> numbers(1000);
    for (int i = 0; i != 1000; ++i) numbers[static_cast<std::size_t>(i)] = falling ? -i : i;
    std::size_t compared = 0;
    sort_seldom(numbers, [&](int a, int b) { return ++compared, a < b; });
    REQUIRE(std::ranges::is_sorted(numbers));
    REQUIRE(static_cast<double>(compared) < 2 * 1000 * std::log2(1000));
  }
}

TEST_CASE("what is made later is destroyed once: by reset, by the next one, and at the end") {
  int alive = 0;
  struct Counted {
    int& count;
    explicit Counted(int& all) : count(all) { ++count; }
    ~Counted() { --count; }
  };
  {
    MadeLater<Counted> made;
    CHECK(!made);
    made.emplace(alive);
    made.emplace(alive);
    CHECK(alive == 1);
    CHECK(&made->count == &alive);
    made.reset();
    made.reset();
    CHECK(alive == 0);
    CHECK(!made);
    made.emplace(alive);
  }
  CHECK(alive == 0);
}
