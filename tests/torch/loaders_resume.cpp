// A loader that was stopped inside an epoch yields the batches that were left, no more and no fewer.
#include "fixtures.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <fulgurite/core/archive.hpp>
#include <fulgurite/data/loader.hpp>
#include <fulgurite/fulgurite.hpp>
#include <fulgurite/torch/data/mnist.hpp>
#include <fulgurite/torch/data/stack.hpp>
#include <fulgurite/torch/data/tensor_loader.hpp>
#include <fulgurite/torch/data/text.hpp>

namespace {
using namespace fulgurite::data;
using fixtures::same_bits;
using torch::Tensor;
using Seen = std::vector<Tensor>;

/// Data and target of each batch that is left.
Seen rest(auto& loader) {
  Seen all;
  for (auto& batch : loader) {
    all.push_back(batch.data.clone());
    all.push_back(batch.target.clone());
  }
  return all;
}
bool same(Seen const& a, Seen const& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](auto& x, auto& y) { return same_bits(x, y); });
}

/// `make(seed)` returns a loader, or a module with one. Stops before each batch of the second epoch and after the last.
void check_every_stop(auto make, auto&& loader_of) {
  auto whole_made = make(1);
  auto& whole = loader_of(whole_made);
  rest(whole);
  auto const second = rest(whole), third = rest(whole);
  long const batches = static_cast<long>(second.size() / 2);
  REQUIRE(batches > 2);
  for (long stop = 0; stop <= batches; ++stop) {
    auto first_made = make(1), later_made = make(1), told_made = make(1);
    auto &first = loader_of(first_made), &later = loader_of(later_made), &told = loader_of(told_made);
    rest(first);
    if (stop == 0) first.set_epoch(1);
    else {
      auto at = first.begin();
      for (long k = 0; k != stop; ++k) ++at;
    }
    REQUIRE((first.consumed() == stop && first.epoch() == 1));
    fulgurite::load_state_text(later, fulgurite::state_text(first));
    CHECK((later.consumed() == stop && later.epoch() == 1));
    told.set_epoch(1);
    told.resume_at(stop);
    Seen const left(second.begin() + 2 * stop, second.end());
    if (stop != batches) CHECK(same(rest(later), left));  // else the next begin() is the next epoch's
    CHECK(same(rest(told), left));
    CHECK(same(rest(later), third));
    CHECK(same(rest(told), third));
  }
}
auto const itself = [](auto& made) -> auto& { return made; };
auto const its_own = [](auto& module) -> auto& { return module.train_dataloader(); };

struct Rows {
  std::size_t size() const { return 11; }
  Batch operator[](std::size_t i) const {
    return {torch::full({2}, static_cast<double>(i)), torch::tensor(static_cast<std::int64_t>(i))};
  }
};
Tensor eleven() { return torch::arange(22.0).reshape({11, 2}); }
}  // namespace

TEST_CASE("a loader with and without workers goes on inside an epoch", "[resume][data]") {
  for (bool const shuffle : {false, true})
    for (int const workers : {0, 2}) {
      INFO("shuffle " << shuffle << ", workers " << workers);
      check_every_stop(
          [=](std::uint64_t seed) {
            return Loader{Rows{}, {.batch_size = 3, .shuffle = shuffle, .seed = seed, .workers = workers}, Stack{}};
          },
          itself);
    }
}

TEST_CASE("a loader of tensors goes on inside an epoch, and so does what its transform draws", "[resume][data]") {
  auto const noisy = [](Batch batch, Random& random) {
    batch.data.add_(random.uniform());
    return batch;
  };
  for (bool const shuffle : {false, true})
    for (bool const drop_last : {false, true})
      check_every_stop(
          [=](std::uint64_t seed) {
            return TensorLoader{
                eleven(), torch::arange(11),
                TensorLoaderOptions{.batch_size = 3, .shuffle = shuffle, .seed = seed, .drop_last = drop_last}, noisy};
          },
          itself);
}

TEST_CASE("a loader of a sequence goes on inside an epoch", "[resume][data]") {
  std::vector<std::int64_t> numbers(50);
  for (std::size_t i = 0; i != numbers.size(); ++i) numbers[i] = static_cast<std::int64_t>(i);
  for (bool const random : {false, true})
    check_every_stop(
        [&](std::uint64_t seed) {
          return BlockLoader(numbers, {.block = 4, .random = random, .batch_size = 3, .seed = seed});
        },
        itself);
}

TEST_CASE("the loaders of modules go on inside an epoch", "[resume][data]") {
  check_every_stop(
      [](std::uint64_t seed) {
        Split parts{{0, 2, 4, 6, 8, 9, 10}, {1, 3}};
        return TensorModule<>({eleven(), torch::arange(11)}, parts, {.batch_size = 2, .shuffle = true, .seed = seed});
      },
      its_own);
  check_every_stop(
      [](std::uint64_t seed) {
        std::string content;
        for (int i = 0; i != 100; ++i) content += static_cast<char>('a' + i % 26);
        return text_of(content, {.block = 5, .validation = 0.25, .batch_size = 4, .seed = seed});
      },
      its_own);
  // Digits are drawn from the seed, so a program that goes on has the same one.
  check_every_stop([](std::uint64_t) { return digits({.train = 20, .validation = 4, .batch_size = 6, .seed = 5}); },
                   its_own);
}

TEST_CASE("inside an epoch a loader of another seed is refused, whatever is drawn from it", "[resume][data]") {
  auto const refusals = [](auto make) {
    auto begun = make(1), same = make(1), other = make(2), between = make(2);
    auto at = begun.begin();
    ++at;
    auto const saved = fulgurite::state_text(begun);
    CHECK_NOTHROW(fulgurite::load_state_text(same, saved));
    try {
      fulgurite::load_state_text(other, saved);
      return std::string("nothing was thrown");
    } catch (fulgurite::Error const& error) {
      begun.finish_epoch();
      CHECK_NOTHROW(fulgurite::load_state_text(between, fulgurite::state_text(begun)));
      return std::string(error.identifier());
    }
  };
  std::string const refused = "fulgurite.data.resume";
  CHECK(refusals([](std::uint64_t seed) {
          return BlockLoader(std::vector<std::int64_t>(50), {.block = 4, .batch_size = 3, .seed = seed});
        }) == refused);
  CHECK(refusals([](std::uint64_t seed) {
          BlockOptions const consecutive{.block = 4, .random = false, .batch_size = 3, .seed = seed};
          return BlockLoader(std::vector<std::int64_t>(50), consecutive);
        }) == "nothing was thrown");  // it draws nothing
  CHECK(refusals([](std::uint64_t seed) {
          return TensorLoader{eleven(), torch::arange(11), TensorLoaderOptions{.batch_size = 3, .seed = seed},
                              [](Batch batch, BatchRandom&) { return batch; }};
        }) == refused);
  CHECK(refusals([](std::uint64_t seed) {
          return TensorLoader{eleven(), torch::arange(11), TensorLoaderOptions{.batch_size = 3, .seed = seed}};
        }) == "nothing was thrown");
}

namespace {
/// Fails at a step, if asked to.
struct Failing : torch::nn::LinearImpl {
  Failing() : LinearImpl(2, 1) {
    torch::NoGradGuard const no_graph;
    weight.fill_(0.5);
    bias.fill_(0);
  }
  long steps = 0, fails_at = -1;
  Seen seen{};
  auto training_step(Batch const& batch) {
    if (steps++ == fails_at) throw fulgurite::Error("fulgurite.test.step", "a step failed");
    seen.push_back(batch.data.clone());
    return forward(batch.data).square().mean();
  }
  void test_step(Batch const&) {}
  auto configure_optimizers() { return torch::optim::SGD(parameters(), 0.01); }
};
auto trainer_of(int epochs) {
  using namespace fulgurite;
  return make_trainer<Failing>(TrainerOptions{.max_epochs = epochs}, SingleDevice{cpu}, Float32{}, Automatic{},
                               NoDefaults{});
}
/// A file that is there while this lives.
struct File {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("loaders_resume_" + std::to_string(::getpid()) + ".safetensors");
  ~File() { std::filesystem::remove(path); }
};
auto in_threes(long batch_size = 3, std::uint64_t seed = 4) {
  return TensorLoader{eleven(), torch::zeros({11}), {.batch_size = batch_size, .shuffle = true, .seed = seed}};
}
}  // namespace

TEST_CASE("a fit that failed inside of an epoch begins it again, from a snapshot and from a file", "[resume][data]") {
  File const file;
  Failing whole;
  auto all = in_threes();
  trainer_of(3).fit(whole, all);
  REQUIRE(whole.seen.size() == 12);
  for (bool const by_file : {false, true}) {
    Failing net;
    net.fails_at = 6;
    auto loader = in_threes();
    auto trainer = trainer_of(3);
    CHECK_THROWS_AS(trainer.fit(net, loader), fulgurite::Error);
    net.seen.clear();
    if (by_file) {
      trainer.save_checkpoint(file.path);
      trainer.fit(net, loader, fulgurite::CkptPath{file.path});
    } else {
      trainer.fit(net, loader, snapshot(trainer));
    }
    CHECK(trainer.progress().epoch == 3);
    REQUIRE(net.seen.size() == 8);
    for (std::size_t i = 0; i != 8; ++i) CHECK(same_bits(net.seen[i], whole.seen[4 + i]));
  }
}

TEST_CASE("Float64: weights of a file and of a snapshot reach a new model as they are", "[resume][precision]") {
  using namespace fulgurite;
  File const file;
  auto loader = in_threes();
  auto const make = [](int epochs) {
    return make_trainer<Failing>(TrainerOptions{.max_epochs = epochs}, SingleDevice{cpu}, Float64{}, Automatic{},
                                 NoDefaults{});
  };
  Failing trained, tested, ended, continued, narrow;
  auto trainer = make(1);
  trainer.fit(trained, loader);
  trainer.save_checkpoint(file.path);
  REQUIRE_FALSE(same_bits(trained.weight, trained.weight.to(torch::kFloat).to(torch::kDouble)));
  make(1).test(tested, loader, CkptPath{file.path});
  CHECK(same_bits(tested.weight, trained.weight));
  make(1).fit(ended, loader, CkptPath{file.path});
  CHECK(same_bits(ended.weight, trained.weight));
  auto const after = snapshot(trainer);
  make(1).fit(continued, loader, after);
  CHECK(same_bits(continued.weight, trained.weight));

  auto other = trainer_of(1);
  other.fit(narrow, loader);
  other.save_checkpoint(file.path);
  make(1).test(tested, loader, CkptPath{file.path});
  CHECK(same_bits(tested.weight, narrow.weight.to(torch::kDouble)));
}

TEST_CASE("a run that stopped between two epochs goes on with another batch size and seed", "[resume][data]") {
  File const file;
  Failing net;
  auto loader = in_threes();
  auto trainer = trainer_of(1);
  trainer.fit(net, loader);
  trainer.save_checkpoint(file.path);
  net.seen.clear();
  auto other = in_threes(5, 7);
  trainer_of(2).fit(net, other, fulgurite::CkptPath{file.path});
  CHECK(net.seen.size() == 3);
}

TEST_CASE("a fit goes on from a snapshot as often as wanted, wherever its loader was left", "[resume][data]") {
  using namespace fulgurite;
  Failing net;
  auto loader = in_threes();
  TrainerOptions options{.max_epochs = 1, .limit_train_batches = 2};
  auto trainer = make_trainer<Failing>(options, SingleDevice{cpu}, Float32{}, Automatic{}, NoDefaults{});
  trainer.fit(net, loader);
  auto const before = snapshot(trainer);
  options.max_epochs = 2;
  trainer.set_options(options);
  net.seen.clear();
  trainer.fit(net, loader, before);
  REQUIRE(net.seen.size() == 2);
  trainer.fit(net, loader, before);
  REQUIRE(net.seen.size() == 4);
  for (std::size_t i = 0; i != 2; ++i) CHECK(same_bits(net.seen[i], net.seen[2 + i]));
}
