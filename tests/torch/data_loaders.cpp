// Loaders on LibTorch: batches gathered into memory that is used again, torch::data's loaders, workers that stack
// tensors.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <ranges>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <torch/torch.h>
// After LibTorch, which has a CHECK of its own.
#include <catch2/catch_test_macros.hpp>

#include <fulgurite/concept/data.hpp>
#include <fulgurite/data/loader.hpp>
#include <fulgurite/data/pipeline.hpp>
#include <fulgurite/loop/trainer.hpp>
#include <fulgurite/torch/data/stack.hpp>
#include <fulgurite/torch/data/tensor_loader.hpp>
#include <fulgurite/torch/data/text.hpp>
#include <fulgurite/torch/data/torch_loader.hpp>

#include "../unit/data_testing.hpp"
#include "fixtures.hpp"
#include "toy.hpp"

using namespace fulgurite::data;
using data_test::refusal;

namespace {

torch::Tensor rows(std::int64_t count) {
  return torch::arange(count, torch::kFloat).unsqueeze(1).expand({count, 3}).contiguous();
}
TensorLoader<> loader_of(std::int64_t count, TensorLoaderOptions options) {
  return {rows(count), torch::arange(count), options};
}

std::vector<std::vector<std::int64_t>> targets(auto& loader) {
  std::vector<std::vector<std::int64_t>> all;
  for (auto& batch : loader) {
    auto const* first = batch.target.template data_ptr<std::int64_t>();
    all.emplace_back(first, first + batch.target.numel());
    REQUIRE(batch.data.equal(
        batch.target.to(torch::kFloat).unsqueeze(1).expand({batch.target.numel(), 3})));  // rows stay together
  }
  return all;
}

using Lists = std::vector<std::vector<std::int64_t>>;
Lists targets_of_blocks(BlockLoader& loader) {
  Lists all;
  for (auto& batch : loader) {
    auto const* first = batch.target.data_ptr<std::int64_t>();
    all.emplace_back(first, first + batch.target.numel());
  }
  return all;
}
static_assert(std::ranges::input_range<TensorLoader<>&> && std::ranges::sized_range<TensorLoader<>&>);

struct Numbers : torch::data::datasets::Dataset<Numbers> {
  std::size_t count, fails_at = 1000;
  explicit Numbers(std::size_t n, std::size_t fails = 1000) : count(n), fails_at(fails) {}
  torch::data::Example<> get(std::size_t i) override {
    if (i == fails_at) throw std::runtime_error("the disk says no");
    return {torch::full({2}, static_cast<double>(i)), torch::tensor(static_cast<std::int64_t>(i))};
  }
  std::optional<std::size_t> size() const override { return count; }
};

/// Fills one tensor for batch after batch: 0, 1, 2, ...
struct FillsOne : torch::data::datasets::BatchDataset<FillsOne, torch::data::Example<>> {
  torch::Tensor all = torch::zeros({2});
  torch::data::Example<> get_batch(c10::ArrayRef<std::size_t> indices) override {
    return {all.fill_(static_cast<double>(indices[0] / 2)), all};
  }
  std::optional<std::size_t> size() const override { return 10; }
};

struct Sees : toy::P {
  std::vector<float> values = {};
  toy::Tensor training_step(torch::data::Example<> const& batch) {
    values.push_back(batch.data[0].item<float>());
    return -p;
  }
};

auto torch_loader(std::size_t workers, std::size_t fails_at = 1000) {
  return torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(
      Numbers(20, fails_at).map(torch::data::transforms::Stack<>()),
      torch::data::DataLoaderOptions(3).workers(workers));
}

}  // namespace

TEST_CASE("a tensor loader gathers rows, in order or shuffled as any sampler") {
  auto loader = loader_of(7, {.batch_size = 3});
  CHECK(loader.size() == 3);
  CHECK(targets(loader) == Lists{{0, 1, 2}, {3, 4, 5}, {6}});
  auto dropping = loader_of(7, {.batch_size = 3, .drop_last = true});
  CHECK(targets(dropping) == Lists{{0, 1, 2}, {3, 4, 5}});

  auto shuffled = loader_of(10, {.batch_size = 10, .shuffle = true, .seed = 42});
  shuffled.set_epoch(5);
  CHECK(targets(shuffled) == Lists{{0, 5, 3, 9, 2, 8, 7, 6, 1, 4}});  // the order that tests/unit/data_sampler.cpp pins
  CHECK(targets(shuffled) != targets(shuffled));

  TensorLoader chosen{rows(10), torch::arange(10), Subset{std::vector<std::size_t>{8, 2}}, {.batch_size = 5}};
  CHECK(targets(chosen) == Lists{{8, 2}});
  TensorLoader single{rows(3), torch::arange(3)};  // without options a batch has one sample, as in PyTorch
  CHECK(single.size() == 3);
  auto empty = loader_of(0, {.batch_size = 3});
  CHECK(targets(empty).empty());
}

TEST_CASE("shuffling draws nothing from LibTorch's generator") {
  torch::manual_seed(1);
  auto const expected = torch::rand(3);
  torch::manual_seed(1);
  auto loader = loader_of(50, {.batch_size = 3, .shuffle = true});
  targets(loader);
  CHECK(torch::rand(3).equal(expected));
}

TEST_CASE("a batch stays until the second increment, and its memory is then used again") {
  auto loader = loader_of(10, {.batch_size = 2});
  auto at = loader.begin();
  void const* const memory = (*at).data.const_data_ptr();
  auto const& first = *at;
  ++at;
  CHECK(first.data[1][0].item<float>() == 1);
  CHECK((*at).data.const_data_ptr() != memory);
  ++at;
  CHECK((*at).data.const_data_ptr() == memory);
  for (int epoch = 0; epoch < 3; ++epoch)
    for (auto& batch : loader) CHECK(batch.target.numel() == 2);
  CHECK((*loader.begin()).data.is_contiguous());
}

TEST_CASE("memory that somebody still holds is left alone") {
  auto loader = loader_of(12, {.batch_size = 2});
  std::vector<torch::Tensor> kept, views;
  std::vector<torch::Tensor> losses;
  auto const weight = torch::ones({3}, torch::requires_grad());
  for (auto& batch : loader) {
    kept.push_back(batch.data);
    views.push_back(batch.target.slice(0, 1));
    losses.push_back((batch.data * weight).sum());  // the graph needs the data
  }
  for (std::size_t i = 0; i < 6; ++i) {
    CHECK(kept[i][0][0].item<float>() == static_cast<float>(2 * i));
    CHECK(views[i].item<std::int64_t>() == static_cast<std::int64_t>(2 * i + 1));
  }
  kept.clear();
  for (auto& loss : losses) loss.backward();
  CHECK(weight.grad()[0].item<float>() == 66);
}

TEST_CASE("what is done to a batch does not stick: writing, gradients, inference mode") {
  auto const data = rows(4);
  TensorLoader loader{data, torch::arange(4), {.batch_size = 2}};
  {
    c10::InferenceMode const inference;
    for (auto& batch : loader) CHECK_FALSE(batch.data.is_inference());
  }
  for (int epoch = 0; epoch < 3; ++epoch)
    for (auto& batch : loader) {
      CHECK_FALSE(batch.data.requires_grad());
      batch.data.requires_grad_();
      batch.data.square().sum().backward();
      torch::NoGradGuard const no_grad;
      batch.data.mul_(100);
    }
  auto const weight = torch::full({1}, 2.0, torch::requires_grad());
  for (auto& batch : loader) batch.data.mul_(weight).sum().backward();  // a batch is no view to autograd
  CHECK(weight.grad().item<float>() == 18);
  CHECK(data.equal(rows(4)));
}

TEST_CASE("a transform changes whole batches, with random numbers of the batch alone") {
  auto const noisy = [](Batch batch, Random& random) {
    batch.data.add_(random.uniform());
    return batch;
  };
  TensorLoader loader{rows(8), torch::arange(8), {.batch_size = 2, .seed = 3}, noisy};
  auto const first_values = [&] {
    std::vector<float> values;
    for (auto& batch : loader) values.push_back(batch.data[0][0].item<float>());
    return values;
  };
  loader.set_epoch(1);
  auto const once = first_values();
  loader.set_epoch(2);
  CHECK(first_values() != once);
  loader.set_epoch(1);
  loader.resume_at(2);
  CHECK(first_values() == std::vector<float>{once[2], once[3]});
  TensorLoader negated{
      rows(4), torch::arange(4), {.batch_size = 4}, [](Batch batch) { return Batch{-batch.data, batch.target}; }};
  CHECK((*negated.begin()).data[3][0].item<float>() == -3);
}

TEST_CASE("a transform draws other numbers on each rank, and by row those of one process") {
  auto const noisy = [](Batch batch, BatchRandom& random) {
    batch.data.select(1, 0).add_(random.uniform());
    for (std::int64_t i = 0; i != batch.data.size(0); ++i)
      batch.data[i][1].add_(random.row(static_cast<std::size_t>(i)).uniform());
    return batch;
  };
  auto const drawn = [&](int rank, int world, long batch_size, int workers) {
    TensorLoader loader{torch::zeros({12, 2}),
                        torch::arange(12),
                        {.batch_size = batch_size, .shuffle = true, .seed = 3, .workers = workers},
                        noisy};
    if (world != 1) loader.shard(rank, world, true);
    std::map<long, std::pair<float, float>> all;
    for (auto& batch : loader)
      for (std::int64_t i = 0; i != batch.data.size(0); ++i)
        all[batch.target[i].item<long>()] = {batch.data[i][0].item<float>(), batch.data[i][1].item<float>()};
    return all;
  };
  auto const one = drawn(0, 1, 6, 0);
  for (int const world : {2, 3}) {
    std::map<long, float> rows;
    std::set<float> batches;
    for (int rank = 0; rank != world; ++rank)
      for (auto const& [sample, values] : drawn(rank, world, 6 / world, rank)) {
        batches.insert(values.first);
        rows[sample] = values.second;
      }
    CHECK(batches.size() == static_cast<std::size_t>(2 * world));
    REQUIRE(rows.size() == 12);
    for (auto const& [sample, values] : one) CHECK(rows[sample] == values.second);
  }
}

TEST_CASE("a saved tensor loader goes on where it stopped") {
  auto first = loader_of(20, {.batch_size = 3, .shuffle = true, .seed = 1}),
       second = loader_of(20, {.batch_size = 3, .shuffle = true, .seed = 1});
  auto const whole = targets(first);
  first.set_epoch(0);
  auto at = first.begin();
  ++at;
  data_test::load(second, data_test::saved(first));
  CHECK(targets(second) == Lists(whole.begin() + 1, whole.end()));
}

TEST_CASE("inside a pass another batch size, or order, changes nothing before the next one") {
  auto const noisy = [](Batch batch, BatchRandom& random) {
    batch.data.add_(static_cast<double>(random.below(1000)));
    return batch;
  };
  auto const pass = [](auto& loader, auto&& meanwhile) {
    std::vector<torch::Tensor> all;
    for (auto& batch : loader) {
      all.insert(all.end(), {batch.data.clone(), batch.target.clone()});
      if (all.size() == 2) meanwhile(loader);
    }
    return all;
  };
  auto const nothing = [](auto&) {};
  auto const other = [](auto& loader) {
    loader.set_batch_size(2);
    loader.in_order(true);
  };
  auto const check = [&](auto make) {
    for (int const workers : {0, 2}) {
      auto plain = make(workers), changed = make(workers);
      pass(plain, nothing);  // so that the epoch is not the one of a loader in order
      pass(changed, nothing);
      auto const expected = pass(plain, nothing), seen = pass(changed, other);
      REQUIRE(seen.size() == expected.size());
      for (std::size_t i = 0; i != seen.size(); ++i) CHECK(seen[i].equal(expected[i]));
      CHECK((*changed.begin()).data.size(0) == 2);
    }
  };
  check([&](int workers) {
    return TensorLoader{rows(10), torch::arange(10),
                        TensorLoaderOptions{.batch_size = 3, .shuffle = true, .seed = 1, .workers = workers}, noisy};
  });
  std::vector<std::int64_t> numbers(60);
  std::iota(numbers.begin(), numbers.end(), 0);
  for (bool const random : {false, true})
    check([&](int workers) {
      return BlockLoader(numbers, {.block = 4, .random = random, .batch_size = 4, .workers = workers});
    });
}

TEST_CASE("a batch size far beyond the data is all of them at once, in memory for them alone") {
  long const all = 1'000'000'000'000;
  for (int const workers : {0, 2}) {
    auto loader = loader_of(5, {.batch_size = all, .workers = workers});
    CHECK(targets(loader) == Lists{{0, 1, 2, 3, 4}});
    loader.set_batch_size(3);
    CHECK(targets(loader) == Lists{{0, 1, 2}, {3, 4}});
    BlockLoader blocks({0, 1, 2, 3, 4}, {.block = 2, .random = false, .batch_size = all, .workers = workers});
    CHECK(targets_of_blocks(blocks) == Lists{{1, 2, 3, 4}});
  }
}

TEST_CASE("data on a GPU make batches there") {
  if (!torch::cuda::is_available()) {
    SUCCEED("no GPU here");
    return;
  }
  TensorLoader loader{rows(10).cuda(), torch::arange(10).cuda(), {.batch_size = 4, .shuffle = true}};
  std::int64_t sum = 0;
  for (auto& batch : loader) {
    CHECK(batch.data.is_cuda());
    sum += batch.target.sum().item<std::int64_t>();
  }
  CHECK(sum == 45);
}

TEST_CASE("tensors that do not belong together are refused") {
  CHECK(refusal([] { TensorLoader{rows(3), torch::arange(4), {.batch_size = 1}}; }) == "fulgurite.data.lengths");
  CHECK(refusal([] { TensorLoader{torch::Tensor(), torch::arange(4), {.batch_size = 1}}; }) ==
        "fulgurite.data.lengths");
  CHECK(refusal([] { TensorLoader{torch::ones({}), torch::ones({}), {.batch_size = 1}}; }) == "fulgurite.data.lengths");
  CHECK(refusal([] { TensorLoader{rows(3), torch::arange(3), {.batch_size = 0}}; }) == "fulgurite.data.batch_size");
  TensorLoader wrong{rows(3), torch::arange(3), Sequential{4}, {.batch_size = 1}};
  CHECK(refusal([&] { wrong.begin(); }) == "fulgurite.data.index");
}

TEST_CASE("a loader without options has PyTorch's defaults: batches of one sample, in order") {
  TensorLoader of_tensors{rows(3), torch::arange(3)};
  CHECK(targets(of_tensors) == Lists{{0}, {1}, {2}});
  Loader of_samples{rows(3).unbind(0)};
  REQUIRE(of_samples.size() == 3);
  std::vector<std::int64_t> heights;
  for (auto& batch : of_samples) heights.push_back(batch.size(0));
  CHECK(heights == std::vector<std::int64_t>{1, 1, 1});
}

TEST_CASE("a sampler or a transform needs no options beside it") {
  TensorLoader sampled{rows(4), torch::arange(4), Sequential{2}};
  CHECK(targets(sampled) == Lists{{0}, {1}});
  TensorLoader doubled{rows(2), torch::arange(2), [](Batch batch) { return Batch{batch.data * 2, batch.target * 2}; }};
  CHECK(targets(doubled) == Lists{{0}, {2}});
  Loader loader{std::vector<int>{5, 6, 7}, Sequential{2}};
  std::vector<std::vector<int>> all;
  for (auto& batch : loader) all.push_back(batch);
  CHECK(all == std::vector<std::vector<int>>{{5}, {6}});
}

TEST_CASE("pinned memory is for data of the CPU that go to a GPU") {
  if (!torch::cuda::is_available()) {
    CHECK(refusal([] { TensorLoader{rows(4), torch::arange(4), {.batch_size = 2, .pin_memory = true}}; }) ==
          "fulgurite.data.pin_memory");
    return;
  }
  auto loader = loader_of(4, {.batch_size = 2, .pin_memory = true});
  for (auto& batch : loader) CHECK((batch.data.is_pinned() && batch.target.is_pinned()));
}

TEST_CASE("workers stack samples of tensors") {
  std::vector<torch::Tensor> tensors;
  std::vector<Batch> examples;
  std::vector<std::pair<torch::Tensor, torch::Tensor>> pairs;
  std::vector<std::tuple<torch::Tensor, torch::Tensor, torch::Tensor>> triples;
  for (int i = 0; i < 5; ++i) {
    auto const t = torch::full({2}, i);
    tensors.push_back(t);
    examples.push_back({t, torch::tensor(i)});
    pairs.emplace_back(t, -t);
    triples.emplace_back(t, t + 1, t + 2);
  }
  for (int workers : {0, 2}) {
    LoaderOptions const options{.batch_size = 4, .workers = workers, .on_worker_start = one_thread_each()};
    Loader plain{tensors, options, Stack{}};
    CHECK((*plain.begin()).sizes() == torch::IntArrayRef{4, 2});
    Loader with_target{examples, options, Stack{}};
    CHECK((*with_target.begin()).target.equal(torch::arange(4)));
    Loader paired{pairs, options, Stack{}};
    CHECK((*paired.begin()).second[3][0].item<std::int64_t>() == -3);
    Loader tripled{triples, options, Stack{}};
    CHECK(std::get<2>(*tripled.begin())[3][1].item<std::int64_t>() == 5);
  }
  tensors.push_back(torch::zeros({3}));
  Loader uneven{tensors, {.batch_size = 6, .workers = 1}, Stack{}};
  CHECK(refusal([&] { uneven.begin(); }) == "fulgurite.data.collate");
}

namespace collated {
struct Inner {
  torch::Tensor mask;
};
struct Sample {
  torch::Tensor image, label;
  Inner inner;
};
struct Mixed {
  torch::Tensor image;
  int label;
};
struct Data {
  std::size_t size() const { return 5; }
  Sample get(std::size_t i) const {
    auto const n = static_cast<int>(i);
    return {torch::full({2}, n), torch::tensor(n), {torch::full({1}, -n)}};
  }
};
template <class Loader>
using BatchOf = std::remove_cvref_t<decltype(*std::declval<Loader&>().begin())>;
}  // namespace collated

TEST_CASE("a struct of tensors is stacked member by member, with Stack{} and by default") {
  auto const check = [](auto loader) {
    collated::Sample const& batch = *loader.begin();
    CHECK(batch.image.sizes() == torch::IntArrayRef{4, 2});
    CHECK(batch.label.equal(torch::arange(4)));
    CHECK(batch.inner.mask.equal(-torch::arange(4).view({4, 1})));
  };
  check(Loader{collated::Data{}, {.batch_size = 4}, Stack{}});
  check(Loader{collated::Data{}, {.batch_size = 4}});
  check(Loader{collated::Data{}, {.batch_size = 4, .workers = 2}});
  check(Loader{collated::Data{}, Sequential{5}, {.batch_size = 4}});
  check(collated::Data{} | batch(4));
}

TEST_CASE("samples that hold tensors are collated by default as PyTorch does; others stay a vector") {
  auto const t = torch::ones({2});
  Loader plain{std::vector<torch::Tensor>(3, t), {.batch_size = 3}};
  CHECK(plain.begin()->sizes() == torch::IntArrayRef{3, 2});
  Loader labelled{std::vector<std::pair<torch::Tensor, int>>{{t, 4}, {t, 5}}, {.batch_size = 2}};
  auto const& [image, label] = *labelled.begin();
  CHECK(image.sizes() == torch::IntArrayRef{2, 2});
  CHECK((label.dtype() == torch::kLong && label.equal(torch::tensor({4, 5}))));
  using Named = std::tuple<torch::Tensor, std::string, double, bool>;
  Loader named{std::vector<Named>{{t, "a", 0.5, true}, {t, "b", 1.5, false}}, {.batch_size = 2}};
  auto const& [images, names, weights, flags] = *named.begin();
  CHECK(images.sizes() == torch::IntArrayRef{2, 2});
  CHECK(names == std::vector<std::string>{"a", "b"});
  CHECK((weights.dtype() == torch::kDouble && weights[1].item<double>() == 1.5));
  CHECK((flags.dtype() == torch::kBool && flags[0].item<bool>() && !flags[1].item<bool>()));
  STATIC_REQUIRE(std::same_as<collated::BatchOf<Loader<std::vector<double>>>, std::vector<double>>);
  STATIC_REQUIRE(std::same_as<collated::BatchOf<Loader<std::vector<collated::Mixed>>>, std::vector<collated::Mixed>>);
}

TEST_CASE(
    "workers that gather, transform and cut make the batches of one thread, epoch after epoch, and go on inside") {
  auto const noisy = [](Batch batch, Random& random) {
    batch.data += static_cast<float>(random.uniform());
    return batch;
  };
  auto const loader = [&](int workers, std::uint64_t seed) {
    return TensorLoader{
        rows(50), torch::arange(50),
        TensorLoaderOptions{.batch_size = 4, .shuffle = true, .seed = seed, .workers = workers, .prefetch = 3}, noisy};
  };
  auto const blocks = [](int workers, std::uint64_t seed) {
    std::vector<std::int64_t> numbers(200);
    for (std::size_t i = 0; i != 200; ++i) numbers[i] = static_cast<std::int64_t>(i * i % 17);
    return BlockLoader{numbers, {.block = 7, .batch_size = 5, .seed = seed, .workers = workers}};
  };
  auto const compare = [](auto make) {
    auto alone = make(0, 3), helped = make(2, 3);
    auto const whole = [](auto& from) {
      std::vector<Batch> all;
      for (auto& batch : from) all.push_back({batch.data.clone(), batch.target.clone()});
      return all;
    };
    auto const equal = [](Batch const& a, Batch const& b) { return a.data.equal(b.data) && a.target.equal(b.target); };
    for (int epoch = 0; epoch < 3; ++epoch) CHECK(std::ranges::equal(whole(alone), whole(helped), equal));
    alone.set_epoch(7);
    helped.set_epoch(7);
    auto const all = whole(alone);
    auto at = helped.begin();
    ++at;
    ++at;  // of what was read ahead nothing else is consumed
    auto const saved = data_test::saved(helped);
    auto other = make(2, 3), copy = helped;
    data_test::load(other, saved);
    CHECK(std::ranges::equal(whole(other), std::vector(all.begin() + 2, all.end()), equal));
    copy.set_epoch(7);
    CHECK(std::ranges::equal(whole(copy), all, equal));  // it has workers of its own
    CHECK(std::ranges::equal(whole(helped), whole(other), equal));
  };
  compare(loader);
  compare(blocks);
}

TEST_CASE("workers that could not help are refused, and so is pinning without a GPU") {
  auto const counting = [n = 0](Batch batch) mutable {
    batch.data += ++n;
    return batch;
  };
  CHECK(refusal([&] { TensorLoader{rows(4), torch::arange(4), TensorLoaderOptions{.workers = 1}, counting}; }) ==
        "fulgurite.data.workers");
  CHECK(refusal([] { loader_of(4, {.workers = -1}); }) == "fulgurite.data.workers");
  CHECK(refusal([] { loader_of(4, {.timeout = std::chrono::seconds(1)}); }) == "fulgurite.data.timeout");
  if (at::hasCUDA()) return;
  std::vector<torch::Tensor> const samples(3, torch::zeros({2}));
  auto const mine = [](std::vector<torch::Tensor> const& all) { return torch::stack(all); };
  CHECK(refusal([&] { Loader{samples, {.pin_memory = true}, Stack{}}; }) == "fulgurite.data.pin_memory");
  CHECK(refusal([&] { Loader{samples, {.pin_memory = true}, Pinnable{mine}}; }) == "fulgurite.data.pin_memory");
  torch::Tensor (*plain)(std::vector<torch::Tensor> const&) = mine;
  CHECK(refusal([&] { Loader{samples, {.pin_memory = true}, Pinnable{plain}}; }) == "fulgurite.data.pin_memory");
  CHECK(Loader{samples, {.batch_size = 3}, Pinnable{plain}}.begin()->sizes() == torch::IntArrayRef{3, 2});
  CHECK(refusal([] { BlockLoader{std::vector<std::int64_t>(300), {.pin_memory = true}}; }) ==
        "fulgurite.data.pin_memory");
}

TEST_CASE("one thread each leaves other threads theirs") {
  fixtures::Threads const three(3);
  struct Asks {
    std::size_t size() const { return 8; }
    int get(std::size_t) const { return torch::get_num_threads(); }
  };
  Loader loader{Asks{}, {.batch_size = 2, .workers = 2, .on_worker_start = one_thread_each()}};
  for (auto& batch : loader) CHECK(batch == std::vector{1, 1});
  CHECK(torch::get_num_threads() == 3);
  int new_thread = 0;
  std::thread([&] { new_thread = torch::get_num_threads(); }).join();
  CHECK(new_thread == 3);
}

TEST_CASE("a loader of torch::data may be left early, any number of times") {
  for (std::size_t workers : {0U, 2U}) {
    TorchLoader loader{torch_loader(workers)};
    static_assert(!std::ranges::sized_range<decltype(loader)&>);
    TorchLoader remade{[&] { return torch_loader(workers); }, 7};
    static_assert(std::ranges::sized_range<decltype(remade)&>);
    CHECK(remade.size() == 7);
    auto const use = [](auto& some) {
      for (int round = 0; round < 20; ++round) {
        int seen = 0;
        for (auto& batch : some) {
          REQUIRE(batch.target[0].template item<std::int64_t>() == 3 * seen);
          if (seen++ == round % 8) break;
        }
        CHECK(seen == std::min(round % 8 + 1, 7));
      }
    };
    use(loader);
    use(remade);
    loader.resume_at(5);
    CHECK((*loader.begin()).target.equal(torch::tensor({15, 16, 17})));
  }
}

TEST_CASE("what a worker of torch::data throws arrives, and the loader can go on") {
  for (std::size_t workers : {0U, 2U}) {
    TorchLoader loader{torch_loader(workers, 10)};
    for (int round = 0; round < 5; ++round) {
      int seen = 0;
      CHECK(refusal([&] {
              for ([[maybe_unused]] auto& batch : loader) ++seen;
            }) == "fulgurite.data.torch_loader");
      CHECK(seen == 3);
    }
  }
}

TEST_CASE("a loader of torch::data is read ahead only where its user says that batches stay valid") {
  auto const made = [] {
    return torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(FillsOne{}, 2);
  };
  auto const trained_on = [](auto loader) {
    Sees model;
    fulgurite::make_trainer<Sees>({.max_epochs = 1}, toy::Device{}, fulgurite::Float32{}, fulgurite::Automatic{},
                                  fulgurite::NoDefaults{})
        .fit(model, loader);
    return model.values;
  };
  CHECK(trained_on(TorchLoader{made()}) == std::vector<float>{0, 1, 2, 3, 4});
  CHECK(trained_on(TorchLoader{made(), 5}) == std::vector<float>{0, 1, 2, 3, 4});
  CHECK(trained_on(TorchLoader{made}) == std::vector<float>{0, 1, 2, 3, 4});
  TorchLoader promised{torch_loader(0), ReadAhead{}};
  TorchLoader remade{[] { return torch_loader(0); }, ReadAhead{}};
  static_assert(fulgurite::BatchesStayValid<decltype(promised)> && fulgurite::BatchesStayValid<decltype(remade)>);
  static_assert(!std::ranges::sized_range<decltype(promised)&>);
  static_assert(!fulgurite::BatchesStayValid<decltype(TorchLoader{made()})>);
}
