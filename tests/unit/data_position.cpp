#include <optional>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <fulgurite/data/batches.hpp>
#include <fulgurite/data/loader.hpp>
#include <fulgurite/data/sampler.hpp>

#include "data_testing.hpp"

using namespace fulgurite::data;

namespace {
constexpr Layout thirty{.batches = 4, .batch_size = 8, .samples = 30};

struct WithPosition {
  Position position;
  Layout layout = thirty;
  void state(auto& archive) { position.state(archive, layout); }
};
}  // namespace

TEST_CASE("epochs follow each other unless one is chosen") {
  Position p;
  CHECK(p.begin(4) == 0);
  CHECK(p.epoch() == 0);
  p.begin(4);
  CHECK(p.epoch() == 1);
  p.set_epoch(7);
  p.begin(4);
  CHECK(p.epoch() == 7);
  p.begin(4);
  CHECK(p.epoch() == 8);
  p.set_epoch(8);  // the same again
  p.begin(4);
  CHECK(p.epoch() == 8);
}

TEST_CASE("a position in the middle of an epoch is resumed there, once") {
  WithPosition first, second;
  first.position.set_epoch(3);
  first.position.begin(4);
  first.position.advance();
  first.position.advance();
  data_test::load(second, data_test::saved(first));
  CHECK(second.position.begin(4) == 2);
  CHECK(second.position.epoch() == 3);
  CHECK(second.position.begin(4) == 0);
  CHECK(second.position.epoch() == 4);
}

TEST_CASE("set_epoch keeps the place in the resumed epoch, and drops it for another") {
  WithPosition first, same, other;
  first.position.begin(4);
  first.position.advance();
  data_test::load(same, data_test::saved(first));
  data_test::load(other, data_test::saved(first));
  same.position.set_epoch(0);
  CHECK(same.position.begin(4) == 1);
  other.position.set_epoch(1);
  CHECK(other.position.begin(4) == 0);
}

TEST_CASE("after a whole epoch comes the next, but a chosen one that is over stays over") {
  WithPosition first, free, chosen;
  first.position.begin(4);
  for (int i = 0; i < 4; ++i) first.position.advance();
  data_test::load(free, data_test::saved(first));
  CHECK(free.position.begin(4) == 0);
  CHECK(free.position.epoch() == 1);
  data_test::load(chosen, data_test::saved(first));
  chosen.position.set_epoch(0);
  CHECK(chosen.position.begin(4) == 4);
}

TEST_CASE("a loop may say where to go on") {
  Position p;
  p.begin(4);
  p.resume_at(3);
  CHECK(p.begin(4) == 3);
  CHECK(p.epoch() == 0);
  CHECK(p.consumed() == 3);
  CHECK(data_test::refusal([&] { p.resume_at(-1); }) == "fulgurite.data.resume_at");
}

TEST_CASE("another layout is refused in the middle of an epoch only") {
  WithPosition middle, end, other;
  other.layout.batch_size = 16;
  other.layout.batches = 2;
  middle.position.begin(4);
  middle.position.advance();
  CHECK(data_test::refusal([&] { data_test::load(other, data_test::saved(middle)); }) == "fulgurite.data.resume");
  end.position.begin(4);
  CHECK_NOTHROW(data_test::load(other, data_test::saved(end)));
  for (int i = 0; i < 4; ++i) end.position.advance();
  CHECK_NOTHROW(data_test::load(other, data_test::saved(end)));
}

TEST_CASE("within an epoch the kind of order, and which samples a split has, stay what they were") {
  std::vector<double> const numbers(6);
  auto const refused = [&](auto before, auto after, int batches) {
    auto at = before.begin();
    for (int i = 0; i != batches; ++i) ++at;
    return data_test::refusal([&] { data_test::load(after, data_test::saved(before)); });
  };
  auto const loader = [&](bool shuffle, std::uint64_t seed = 3) {
    return Loader{numbers, {.batch_size = 2, .shuffle = shuffle, .seed = seed}};
  };
  CHECK(refused(loader(true), loader(false), 2) == "fulgurite.data.resume");
  CHECK(refused(loader(false), loader(true), 2) == "fulgurite.data.resume");
  CHECK(refused(loader(true), loader(false), 3) == "nothing was thrown");  // the epoch is over
  CHECK(refused(loader(true), loader(true, 4), 2) == "fulgurite.data.resume");
  CHECK(refused(loader(true), loader(true, 4), 3) == "nothing was thrown");
  CHECK(refused(loader(false), loader(false, 4), 2) == "nothing was thrown");  // which is the seed of nothing
  auto const part = [&](std::vector<std::size_t> chosen) {
    return Loader{numbers, Subset{std::move(chosen)}, {.batch_size = 1}};
  };
  CHECK(refused(part({5, 1, 3}), part({5, 3, 1}), 1) == "fulgurite.data.resume");
  CHECK(refused(part({5, 1, 3}), part({5, 1, 3}), 1) == "nothing was thrown");
}

namespace {
/// 0, 1, 2.
struct Three : Batches<Three, int> {
  int at = 0;
  void start(long, long first) { at = static_cast<int>(first); }
  bool next(std::optional<int>& batch) {
    if (at == 3) return false;
    batch = at++;
    return true;
  }
  std::size_t size() const { return 3; }
};
}  // namespace

TEST_CASE("a loop does not go on with a loader that another loop has begun to read") {
  using Catch::Matchers::StartsWith;
  Three loader;
  auto one = loader.begin();
  CHECK(*++one == 1);
  auto other = loader.begin();
  auto const refused = StartsWith("[fulgurite.data.two_passes]");
  CHECK_THROWS_WITH(*one, refused);
  CHECK_THROWS_WITH(++one, refused);
  CHECK_THROWS_WITH(one == loader.end(), refused);
  CHECK(*++other == 1);
}
