// Several loaders as one: which batches stand beside each other, how many there are, resuming; loaders with names.
#include <catch2/catch_test_macros.hpp>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fulgurite/data/combined.hpp>
#include <fulgurite/data/loader.hpp>
#include <fulgurite/data/pipeline.hpp>

#include "data_probe.hpp"
#include "data_testing.hpp"
#include "models.hpp"

using namespace fulgurite::data;
using fulgurite::SizedLoader;

namespace {

using Pairs = std::vector<std::pair<int, int>>;
constexpr int none = -1;

int number(int batch) { return batch; }
int number(std::vector<int> const& batch) { return batch.front(); }
template <class T>
int number(std::optional<T> const& batch) {
  return batch ? number(*batch) : none;
}

/// The batches of one epoch, at most `most`.
Pairs pairs(auto&& loader, long most = 1000) {
  Pairs all;
  for (auto& [a, b] : loader) {
    all.emplace_back(number(a), number(b));
    if (--most == 0) break;
  }
  return all;
}

template <CombineMode Mode>
Pairs of(auto a, auto b) {
  return pairs(combined<Mode>(std::move(a), std::move(b)));
}
constexpr auto shortest = CombineMode::min_size, longest = CombineMode::max_size, cycle = CombineMode::max_size_cycle;

/// from, from + 1, ... each a batch: a plain vector, one of our loaders, or a stream without a size.
std::vector<int> list(int n, int from = 0) {
  auto all = data_test::numbers(n);
  for (int& one : all) one += from;
  return all;
}
auto loader(int n, int from = 0) { return Loader{list(n, from), {}}; }
auto stream(int n, int from = 0) {
  return stream_of([all = list(n, from)] { return all; });
}
auto shuffled(int n, std::uint64_t seed) { return Loader{list(n), {.shuffle = true, .seed = seed}}; }

template <class L>
concept orderable = requires(L& loader) { loader.in_order(true); };
template <class L>
concept limited_in_parts = requires(L& loader) { loader.limit_each(0.5); };

}  // namespace

TEST_CASE("C133: loaders of 3 and 4 batches side by side: as long as the shortest, the longest with nothing, the "
          "longest again from its start") {
  Pairs const three{{0, 10}, {1, 11}, {2, 12}}, with_none{{0, 10}, {1, 11}, {2, 12}, {none, 13}},
      again{{0, 10}, {1, 11}, {2, 12}, {0, 13}};
  auto const each = [&](auto make) {
    CHECK(of<shortest>(make(3, 0), make(4, 10)) == three);
    CHECK(of<longest>(make(3, 0), make(4, 10)) == with_none);
    CHECK(of<cycle>(make(3, 0), make(4, 10)) == again);
  };
  each(list);
  each(loader);
  each(stream);
  CHECK(of<shortest>(stream(4), loader(3, 10)) == three);
  CHECK(of<longest>(loader(1), list(1, 10)) == Pairs{{0, 10}});
  CHECK(of<cycle>(list(2), list(7, 10)) == Pairs{{0, 10}, {1, 11}, {0, 12}, {1, 13}, {0, 14}, {1, 15}, {0, 16}});
  CHECK(of<cycle>(stream(2), stream(5, 10)) == Pairs{{0, 10}, {1, 11}, {0, 12}, {1, 13}, {0, 14}});
}

TEST_CASE("sized where all are; three loaders; cycling is the default; of one loader a tuple of one") {
  CHECK(combined<shortest>(list(3), list(4), list(2)).size() == 2);
  CHECK(combined<longest>(list(3), list(4), list(2)).size() == 4);
  CHECK(combined(list(3), loader(4)).size() == 4);
  CHECK(decltype(combined(list(3), list(4)))::combine_mode == cycle);
  static_assert(SizedLoader<decltype(combined(list(1), loader(2)))> &&
                !SizedLoader<decltype(combined(list(1), stream(2)))>);
  static_assert(std::is_same_v<decltype(combined<longest>(list(1), loader(2)))::Batch,
                               std::tuple<std::optional<int>, std::optional<std::vector<int>>>>);
  std::vector<std::vector<int>> seen;
  for (auto& [a, b, c] : combined(list(3), list(4), list(2))) seen.push_back({a, b, c});
  CHECK(seen == std::vector<std::vector<int>>{{0, 0, 0}, {1, 1, 1}, {2, 2, 0}, {0, 3, 1}});
  for (auto& [a] : combined(list(1, 7))) CHECK(a == 7);
}

TEST_CASE("a limit of 2 is the same for each loader and for all; a part is of each loader, then they are combined") {
  CHECK(pairs(combined<shortest>(list(3), list(4, 10)), 2) == Pairs{{0, 10}, {1, 11}});
  auto const halves = []<CombineMode Mode>(std::integral_constant<CombineMode, Mode>) {
    auto both = combined<Mode>(list(3), loader(4, 10));
    both.limit_each(0.5);
    auto seen = pairs(both);
    CHECK(both.size() == seen.size());
    both.limit_each(1);
    CHECK(both.size() == (Mode == shortest ? 3 : 4));
    return seen;
  };
  CHECK(halves(std::integral_constant<CombineMode, shortest>{}) == Pairs{{0, 10}});
  CHECK(halves(std::integral_constant<CombineMode, longest>{}) == Pairs{{0, 10}, {none, 11}});
  CHECK(halves(std::integral_constant<CombineMode, cycle>{}) == Pairs{{0, 10}, {0, 11}});
  auto both = combined(list(3), list(4));
  CHECK(data_test::refusal([&] { both.limit_each(0.3); }) == "fulgurite.options.fraction_too_small");
}

TEST_CASE("what lies behind a part of a loader is not read") {
  data_test::Probe probe{.count = 10};
  auto both = combined(Loader{probe, {}}, list(2));
  both.limit_each(0.5);
  CHECK(pairs(both).size() == 5);
  CHECK(*probe.read == 5);
}

TEST_CASE("where the shortest has ended, the loaders after it are not read any more") {
  data_test::Probe probe{.count = 10};
  CHECK(pairs(combined<shortest>(stream(2), Loader{probe, {}})).size() == 2);
  CHECK(*probe.read == 2);
}

TEST_CASE("a batch stays valid until the second ++; leaving an epoch early and beginning again starts over") {
  auto both = combined(loader(2), loader(5, 10));
  auto it = both.begin();
  auto& first = *it;
  ++it;
  auto& second = *it;
  CHECK((number(std::get<1>(first)) == 10 && number(std::get<1>(second)) == 11));
  ++it;
  CHECK(number(std::get<0>(second)) == 1);
  CHECK(pairs(both, 2) == Pairs{{0, 10}, {1, 11}});
  CHECK(pairs(both) == Pairs{{0, 10}, {1, 11}, {0, 12}, {1, 13}, {0, 14}});
}

TEST_CASE("what the user keeps is copied, the slots of our loaders are moved from, std::ref borrows") {
  std::vector<std::vector<int>> mine{{1, 2}, {3}};
  auto both = combined(std::ref(mine), Loader{list(2), LoaderOptions{}, [](std::vector<int> samples) {
                                                return std::make_unique<int>(samples[0]);
                                              }});
  for (int epoch = 0; epoch != 2; ++epoch) {
    std::vector<int> seen;
    for (auto& [a, b] : both) {
      seen.insert(seen.end(), a.begin(), a.end());
      seen.push_back(*b);
    }
    CHECK(seen == std::vector<int>{1, 2, 0, 3, 1});
  }
  mine.push_back({5});
  CHECK(both.size() == 3);
}

TEST_CASE("set_epoch decides the order of each; passes that begin again have orders of their own") {
  auto const one_epoch = [](long epoch) {
    auto both = combined(shuffled(4, 1), shuffled(12, 2));
    both.set_epoch(epoch);
    return pairs(both);
  };
  CHECK(one_epoch(3) == one_epoch(3));
  CHECK(one_epoch(3) != one_epoch(4));
  auto alone = shuffled(12, 2);
  alone.set_epoch(3);
  auto short_one = shuffled(4, 1);
  std::vector<int> expected, longer;
  for (auto& batch : alone) longer.push_back(number(batch));
  for (long pass : {9, 10, 11}) {  // 3 passes an epoch
    short_one.set_epoch(pass);
    for (auto& batch : short_one) expected.push_back(number(batch));
  }
  Pairs const seen = one_epoch(3);
  for (std::size_t i = 0; i != 12; ++i) CHECK(seen[i] == std::pair(expected[i], longer[i]));
  auto both = combined(shuffled(4, 1), shuffled(12, 2));
  CHECK((pairs(both) == one_epoch(0) && pairs(both) == one_epoch(1)));  // without set_epoch, the next one
}

TEST_CASE("beside a loader without a size, too, no pass of another epoch has the order of one that began again") {
  auto both = combined(shuffled(8, 1), stream(24));
  std::vector<std::vector<int>> orders;
  for (int epoch = 0; epoch != 3; ++epoch) {
    auto const seen = pairs(both);
    REQUIRE(seen.size() == 24);
    for (std::size_t i = 0; i != 24; ++i) {
      if (i % 8 == 0) orders.emplace_back();
      orders.back().push_back(seen[i].first);
    }
  }
  for (std::size_t i = 0; i != orders.size(); ++i)
    for (std::size_t j = 0; j != i; ++j) CHECK(orders[i] != orders[j]);
  auto alone = shuffled(8, 1);
  alone.set_epoch(2);
  for (std::size_t i = 0; auto& batch : alone) CHECK(number(batch) == orders[6][i++]);  // it has the epoch of both
}

TEST_CASE("an interrupted epoch goes on at the same batches, whatever the loaders are") {
  auto const check = [](auto make) {
    auto whole = make();
    Pairs const first = pairs(whole), second = pairs(whole);
    for (std::size_t cut = 0; cut <= second.size(); ++cut) {
      CAPTURE(cut);
      auto before = make(), after = make();
      pairs(before);
      auto it = before.begin();
      for (std::size_t k = 0; k != cut; ++k) ++it;
      data_test::load(after, data_test::saved(before));
      if (cut == second.size()) continue;
      CHECK(pairs(after) == Pairs(second.begin() + static_cast<std::ptrdiff_t>(cut), second.end()));
    }
  };
  check([] { return combined<shortest>(shuffled(5, 1), shuffled(7, 2)); });
  check([] { return combined<longest>(shuffled(3, 1), shuffled(7, 2)); });
  check([] { return combined<cycle>(shuffled(3, 1), shuffled(7, 2)); });
  check([] { return combined<cycle>(list(3), shuffled(7, 2)); });
  check([] { return combined<cycle>(stream(3), shuffled(7, 2)); });
  check([] { return combined<cycle>(stream(10), shuffled(3, 2)); });
  check([] { return combined<longest>(stream(3), list(7)); });
  check([] { return combined<shortest>(stream(3), shuffled(7, 2)); });
  auto both = combined(loader(3), loader(4));
  auto const saved = fulgurite::from_text(data_test::saved(both));
  CHECK(saved.find("consumed") != nullptr);
  for (auto const* loader : {"loader.0", "loader.1"}) CHECK(saved.find(loader)->find("consumed") != nullptr);
}

TEST_CASE("a loader without batches cannot begin again") {
  CHECK(data_test::refusal([] { pairs(combined(list(0), list(2))); }) == "fulgurite.data.empty");
  CHECK(data_test::refusal([] { pairs(combined(stream(0), list(2))); }) == "fulgurite.data.empty");
  CHECK(of<shortest>(list(0), list(2)).empty());
  CHECK(of<longest>(list(0), list(1)) == Pairs{{none, 0}});
}

TEST_CASE("in_order takes the shuffling from those that shuffle") {
  auto both = combined(shuffled(4, 1), list(4));
  both.in_order(true);
  CHECK(pairs(both) == Pairs{{0, 0}, {1, 1}, {2, 2}, {3, 3}});
  CHECK(both.in_order(true));
  CHECK_FALSE(combined(shuffled(4, 1), stream(4)).in_order(true));
}

TEST_CASE("a fit receives the tuple, with the limit and the epochs of the trainer") {
  struct Net {
    toy::Tensor p = toy::Tensor::parameter(0.0);
    Pairs seen = {};
    toy::Tensor training_step(std::tuple<int, std::vector<int>>& batch) {
      seen.emplace_back(std::get<0>(batch), std::get<1>(batch)[0]);
      return -p;
    }
    toy::Sgd configure_optimizers() { return toy::Sgd{{p}}; }
  };
  Net net;
  auto both = combined(list(3), loader(4, 10));
  toy::train<Net>({.max_epochs = 2}, fulgurite::Automatic{}).fit(net, both);
  CHECK(net.seen == Pairs{{0, 10}, {1, 11}, {2, 12}, {0, 13}, {0, 10}, {1, 11}, {2, 12}, {0, 13}});
  Net limited;
  auto unsized = combined<shortest>(stream(3), loader(4, 10));
  toy::train<Net>({.max_epochs = 1, .limit_train_batches = 2}, fulgurite::Automatic{}).fit(limited, unsized);
  CHECK(limited.seen == Pairs{{0, 10}, {1, 11}});
}

TEST_CASE("ranks: of combined loaders only those are shared out that are not one rank's part already") {
  auto both = combined<shortest>(of_this_rank(loader(2)), loader(4, 20));
  STATIC_REQUIRE(!fulgurite::ShardsItself<decltype(both)>);
  fulgurite::loop::shard_of(both, 1, 2, true);
  CHECK(pairs(both) == Pairs{{0, 21}, {1, 23}});
  using WithList = decltype(combined(of_this_rank(list(2)), loader(4)));
  STATIC_REQUIRE(fulgurite::ShardableLoader<WithList>);
}

TEST_CASE("a named loader is the loader, with a name") {
  auto clean = named<"clean">(shuffled(4, 1));
  static_assert(decltype(clean)::loader_name == "clean" && SizedLoader<decltype(clean)>);
  static_assert(!SizedLoader<decltype(named<"lines">(stream(2)))>);
  auto plain = shuffled(4, 1);
  for (long epoch : {2, 5}) {
    clean.set_epoch(epoch);
    plain.set_epoch(epoch);
    CHECK(data_test::batches(clean) == data_test::batches(plain));
  }
  CHECK(data_test::saved(clean) == data_test::saved(plain));
  CHECK(clean.size() == 4);
  auto vector = named<"list">(list(3));
  CHECK(vector == list(3));
  std::tuple const both{named<"a">(list(1)), named<"b">(list(2))};
  CHECK(std::get<1>(both).loader_name == "b");
}

TEST_CASE("a borrowed loader keeps its name and stays where it is") {
  auto own = shuffled(4, 1);
  auto noisy = named<"noisy">(std::ref(own));
  static_assert(decltype(noisy)::loader_name == "noisy" && SizedLoader<decltype(noisy)>);
  noisy.set_epoch(3);
  data_test::Epochs const seen = data_test::batches(noisy);
  CHECK(own.epoch() == 3);
  own.set_epoch(3);
  CHECK(seen == data_test::batches(own));
  noisy.set_epoch(4);
  noisy.resume_at(2);
  CHECK(data_test::batches(noisy).size() == 2);
  CHECK(data_test::saved(noisy) == data_test::saved(own));
  noisy.in_order(true);
  CHECK(data_test::batches(noisy) == data_test::Epochs{{0}, {1}, {2}, {3}});
  auto both = combined(list(2), list(4));
  auto named_both = named<"both">(std::ref(both));
  named_both.limit_each(0.5);
  CHECK(named_both.size() == 2);
  auto lines = stream(2);
  auto unsized = named<"lines">(std::ref(lines));
  static_assert(!SizedLoader<decltype(unsized)> && !orderable<decltype(unsized)> &&
                !limited_in_parts<decltype(unsized)>);
}
