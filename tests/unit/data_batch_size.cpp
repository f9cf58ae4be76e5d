// Loaders whose batches are given another number of rows.
#include <fulgurite/data/combined.hpp>
#include <fulgurite/data/loader.hpp>
#include <fulgurite/data/pipeline.hpp>

#include <cstddef>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include "data_testing.hpp"

using namespace fulgurite;
using namespace fulgurite::data;

namespace mine {

/// Tells and sets its size by functions.
struct Loader {
  long rows = 2;
  std::vector<int> all{1, 2, 3};
  auto begin() { return all.begin(); }
  auto end() { return all.end(); }
};
inline long batch_size(Loader const& loader) { return loader.rows; }
inline void set_batch_size(Loader& loader, long rows) { loader.rows = rows; }

}  // namespace mine

namespace {

std::vector<int> numbers(int n) {
  std::vector<int> all(static_cast<std::size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  return all;
}
std::vector<std::size_t> sizes(auto& loader) {
  std::vector<std::size_t> all;
  for (auto& batch : loader) all.push_back(batch.size());
  return all;
}
std::vector<int> content(auto& loader) {
  std::vector<int> all;
  for (auto& batch : loader) all.insert(all.end(), batch.begin(), batch.end());
  return all;
}
using Sizes = std::vector<std::size_t>;

}  // namespace

TEST_CASE("a loader that is given another batch size cuts its next epoch by it") {
  for (int const workers : {0, 2}) {
    Loader loader{numbers(10), {.batch_size = 4, .workers = workers}};
    CHECK(loader.batch_size() == 4);
    CHECK(sizes(loader) == Sizes{4, 4, 2});
    loader.set_batch_size(5);
    CHECK(loader.batch_size() == 5);
    CHECK(loader.size() == 2);
    CHECK(loader.layout() == Layout{.batches = 2, .batch_size = 5, .samples = 10, .order = order_of(Sequential{})});
    CHECK(sizes(loader) == Sizes{5, 5});
    loader.set_batch_size(64);
    CHECK(content(loader) == numbers(10));
    CHECK(data_test::refusal([&] { loader.set_batch_size(0); }) == "fulgurite.data.batch_size");
    CHECK(loader.batch_size() == 64);
  }
}

TEST_CASE("another batch size changes neither the order of an epoch nor which epoch is next") {
  auto const make = [] { return Loader{numbers(12), {.batch_size = 3, .shuffle = true, .seed = 7}}; };
  auto same = make(), other = make();
  auto const first = content(same), second = content(same);
  CHECK(first != second);
  other.set_batch_size(5);
  CHECK(content(other) == first);
  other.set_batch_size(3);
  other.set_batch_size(4);
  CHECK(content(other) == second);
  CHECK(other.epoch() == same.epoch());
  for ([[maybe_unused]] auto& batch : other) break;  // left early
  other.set_batch_size(3);
  other.set_epoch(0);
  CHECK(content(other) == first);
}

TEST_CASE("between epochs a loader of another batch size is saved as one that begins the next epoch") {
  Loader loader{numbers(10), {.batch_size = 2, .shuffle = true}},
      resumed{numbers(10), {.batch_size = 5, .shuffle = true}};
  content(loader);
  content(loader);
  loader.set_batch_size(5);
  data_test::load(resumed, data_test::saved(loader));
  CHECK(resumed.epoch() == 2);
  CHECK(content(resumed) == content(loader));
}

TEST_CASE("between epochs a loader that has more batches than the saved one starts the next epoch") {
  auto const of = [](long rows) { return Loader{numbers(10), {.batch_size = rows, .shuffle = true}}; };
  auto loader = of(5), resumed = of(2), same = of(2);
  content(loader);
  data_test::load(resumed, data_test::saved(loader));
  CHECK(resumed.epoch() == 1);
  auto const second = content(loader);
  data_test::load(same, data_test::saved(resumed));  // before it has begun
  CHECK(content(resumed) == second);
  CHECK(content(same) == second);
}

TEST_CASE(
    "between epochs combined loaders may get another batch size, one that is borrowed and one that is longer, too") {
  auto const sizes_of = [](long from, long to) {
    Loader saved_short{numbers(4), {.batch_size = from}}, resumed_short{numbers(4), {.batch_size = to}};
    auto const joined = [](auto& shorter, long rows) {
      return combined<CombineMode::min_size>(named<"short">(std::ref(shorter)),
                                             Loader{numbers(10), {.batch_size = rows}});
    };
    auto saved = joined(saved_short, from), resumed = joined(resumed_short, to);
    auto at = saved.begin();
    ++at;
    saved.finish_epoch();  // as a fit, which looks no further
    data_test::load(resumed, data_test::saved(saved));
    Sizes all;
    for (auto& [shorter, longer] : resumed) all.insert(all.end(), {shorter.size(), longer.size()});
    return all;
  };
  CHECK(sizes_of(2, 3) == Sizes{3, 3, 1, 3});
}

TEST_CASE("inside of an epoch that is gone on with the batch size stays") {
  Loader loader{numbers(10), {.batch_size = 2}}, resumed{numbers(10), {.batch_size = 2}},
      ended{numbers(10), {.batch_size = 2}};
  auto at = loader.begin();
  ++at;
  data_test::load(resumed, data_test::saved(loader));
  CHECK(data_test::refusal([&] { resumed.set_batch_size(5); }) == "fulgurite.data.batch_size_within");
  resumed.set_batch_size(2);  // which it has
  CHECK(sizes(resumed) == Sizes(4, 2));
  while (at != loader.end()) ++at;
  data_test::load(ended, data_test::saved(loader));
  ended.set_batch_size(5);
  CHECK(sizes(ended) == Sizes{5, 5});
  CHECK(ended.epoch() == 1);
}

TEST_CASE("combined loaders are given a batch size all together, and named ones as they are") {
  Loader other{numbers(6), {.batch_size = 3}};
  auto both = combined<CombineMode::min_size>(Loader{numbers(6), {.batch_size = 2}}, std::ref(other));
  both.set_batch_size(6);
  CHECK(both.batch_size() == 6);
  CHECK(other.batch_size() == 6);
  CHECK(both.size() == 1);
  auto name = named<"clean">(std::ref(other));
  name.set_batch_size(1);
  CHECK(name.batch_size() == 1);
  CHECK(other.size() == 6);
  STATIC_REQUIRE(SettableBatchSize<decltype(both)>);
  STATIC_REQUIRE(SettableBatchSize<decltype(name)>);
}

TEST_CASE("a stream in batches can be given another size, and one of finished batches cannot") {
  auto stream = stream_in_batches([] { return numbers(7); }, {.batch_size = 3});
  CHECK(sizes(stream) == Sizes{3, 3, 1});
  stream.set_batch_size(4);
  CHECK(stream.batch_size() == 4);
  CHECK(sizes(stream) == Sizes{4, 3});
  auto finished = stream_of([] { return numbers(7); });
  STATIC_REQUIRE(SettableBatchSize<decltype(stream)>);
  STATIC_REQUIRE_FALSE(SettableBatchSize<decltype(finished)>);
  STATIC_REQUIRE_FALSE(SettableBatchSize<std::vector<int>>);
}

TEST_CASE("inside an epoch a stream in batches resumes with the same size alone, between epochs with any") {
  auto const of = [](long rows) {
    return stream_in_batches([](long epoch) { return std::vector<int>(7, static_cast<int>(epoch)); },
                             {.batch_size = rows});
  };
  auto stream = of(3), same = of(3), other = of(2);
  auto at = stream.begin();
  ++at;
  auto const saved = data_test::saved(stream);
  data_test::load(same, saved);
  CHECK(sizes(same) == Sizes{3, 1});
  CHECK(data_test::refusal([&] { data_test::load(other, saved); }) == "fulgurite.data.resume");
  CHECK(data_test::sentence([&] {
          data_test::load(other, saved);
        }).find("batches of 3; this loader has batches of 2") != std::string::npos);
  auto const next_epoch = std::vector<int>(7, 1);
  for (bool const to_the_end : {false, true})
    for (long const rows : {2, 3}) {
      auto read = of(3), resumed = of(rows);
      if (to_the_end) sizes(read);
      else read.begin(), read.finish_epoch();  // as a fit with a limit
      data_test::load(resumed, data_test::saved(read));
      CHECK(content(resumed) == next_epoch);
      CHECK(resumed.epoch() == 1);
    }
}

TEST_CASE("a loader whose epoch is over, and that is given an epoch or a size, is saved as one that begins there") {
  auto const of = [](long rows) {
    return stream_in_batches([](long epoch) { return std::vector<int>(7, static_cast<int>(epoch)); },
                             {.batch_size = rows});
  };
  auto stream = of(3), then = of(3);
  sizes(stream);
  stream.set_epoch(5);
  data_test::load(then, data_test::saved(stream));
  CHECK(content(then) == std::vector<int>(7, 5));
  sizes(stream);
  stream.set_batch_size(2);
  auto smaller = of(2);
  data_test::load(smaller, data_test::saved(stream));
  CHECK(content(smaller) == std::vector<int>(7, 6));
}

TEST_CASE("a loader that is given another size inside a pass is saved as one that begins the next epoch") {
  Loader loader{numbers(10), {.batch_size = 3, .shuffle = true}}, then{numbers(10), {.batch_size = 2, .shuffle = true}};
  for (auto it = loader.begin(); it != loader.end(); ++it)
    if (loader.batch_size() == 3) loader.set_batch_size(2);
  data_test::load(then, data_test::saved(loader));
  auto const next = content(loader);
  CHECK(content(then) == next);
  CHECK(next.size() == 10);
}

TEST_CASE("a loader of the user's is given a size by functions in its namespace") {
  mine::Loader loader;
  STATIC_REQUIRE(SettableBatchSize<mine::Loader>);
  loop::set_batch_size_of(loader, 8);
  CHECK(loop::batch_size_of(loader) == 8);
  auto borrowed = named<"mine">(std::ref(loader));
  borrowed.set_batch_size(9);
  CHECK(loader.rows == 9);
}
