#include <catch2/catch_test_macros.hpp>

#include <iterator>
#include <optional>
#include <ranges>
#include <sstream>
#include <vector>

#include <range/v3/range/concepts.hpp>

#include <fulgurite/data/pipeline.hpp>

#include "data_testing.hpp"

using namespace fulgurite::data;

namespace {
auto counting(int last) {
  return fulgurite::data::Stream{[last](long epoch) {
    return [at = static_cast<int>(epoch) * 100, last]() mutable {
      return at % 100 < last ? std::optional(at++) : std::nullopt;
    };
  }};
}
std::vector<int> all(auto& loader) {
  std::vector<int> seen;
  for (int batch : loader) seen.push_back(batch);
  return seen;
}
using Counting = decltype(counting(1));
static_assert(std::ranges::input_range<Counting&> && !std::ranges::sized_range<Counting&> &&
              ranges::input_range<Counting&>);
}  // namespace

TEST_CASE("a stream yields until its function has nothing more, and opens anew for each epoch") {
  auto stream = counting(3);
  CHECK(all(stream) == std::vector{0, 1, 2});
  CHECK(all(stream) == std::vector{100, 101, 102});
  for ([[maybe_unused]] int batch : stream) break;
  CHECK(all(stream) == std::vector{300, 301, 302});
  stream.set_epoch(1);
  CHECK(all(stream) == std::vector{100, 101, 102});
  auto empty = counting(0);
  CHECK(all(empty).empty());
}

TEST_CASE("a resumed stream drops what was consumed") {
  auto first = counting(5), second = counting(5), cut = counting(1);
  auto at = first.begin();
  ++at;
  ++at;
  data_test::load(second, data_test::saved(first));
  CHECK(all(second) == std::vector{2, 3, 4});
  data_test::load(cut, data_test::saved(first));
  CHECK(data_test::refusal([&] { cut.begin(); }) == "fulgurite.data.stream_short");
}

TEST_CASE("any input range is a stream, also one that can be read once only") {
  auto squares = stream_of([] { return std::views::iota(1, 4) | std::views::transform([](int i) { return i * i; }); });
  CHECK(all(squares) == std::vector{1, 4, 9});
  CHECK(all(squares) == std::vector{1, 4, 9});
  auto later = stream_of([](long epoch) { return std::vector<int>(2, static_cast<int>(epoch)); });
  CHECK(all(later) == std::vector{0, 0});
  CHECK(all(later) == std::vector{1, 1});
  std::istringstream words("7 8 9");
  auto once = stream_of([&] { return std::ranges::istream_view<int>(words); });
  CHECK(all(once) == std::vector{7, 8, 9});
}

TEST_CASE("a sample of a stream is drawn with its batch, and not before") {
  int drawn = 0;
  auto loader = stream_in_batches(
      [&] { return std::views::iota(0, 7) | std::views::transform([&](int i) { return ++drawn, i; }); },
      {.batch_size = 3});
  std::vector<int> seen;
  for ([[maybe_unused]] auto& batch : loader) seen.push_back(drawn);
  CHECK(seen == std::vector{3, 6, 7});
}

TEST_CASE("samples of a stream are gathered into batches") {
  auto const open = [] { return std::views::iota(0, 7); };
  using Batches = std::vector<std::vector<int>>;
  auto const collect = [](auto& loader) {
    Batches seen;
    for (auto& batch : loader) seen.push_back(batch);
    return seen;
  };
  auto loader = stream_in_batches(open, {.batch_size = 3});
  CHECK(collect(loader) == Batches{{0, 1, 2}, {3, 4, 5}, {6}});
  CHECK(collect(loader) == Batches{{0, 1, 2}, {3, 4, 5}, {6}});
  for ([[maybe_unused]] auto& batch : loader) break;
  CHECK(collect(loader).size() == 3);
  auto dropping = stream_in_batches(open, {.batch_size = 3, .drop_last = true});
  CHECK(collect(dropping).size() == 2);
  auto sums = stream_in_batches(open, {.batch_size = 4},
                                [](std::vector<int> const& samples) { return static_cast<int>(samples.size()); });
  CHECK(all(sums) == std::vector{4, 3});
  CHECK(data_test::refusal([&] { stream_in_batches(open, {.batch_size = 0}); }) == "fulgurite.data.batch_size");
}
