// Data modules on LibTorch: MNIST from files made here, drawn digits, text.
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <unistd.h>

#include <torch/torch.h>
// After LibTorch, which has a CHECK of its own.
#include <catch2/catch_test_macros.hpp>

#include <fulgurite/fulgurite.hpp>
#include <fulgurite/torch/data/mnist.hpp>
#include <fulgurite/torch/data/text.hpp>

#include "../unit/data_testing.hpp"

using namespace fulgurite::data;
using data_test::refusal;

namespace {

struct Folder {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("fulgurite_modules_" + std::to_string(::getpid()));
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }

  void put(std::string const& name, std::string const& bytes) const {
    std::ofstream(path / name, std::ios::binary) << bytes;
  }

  /// `count` images; every pixel of image i is `i`, its label i % 10.
  void put_mnist(std::string const& part, std::uint8_t count) const {
    auto const number = [](std::uint8_t n) { return std::string(3, '\0') + static_cast<char>(n); };
    std::string images = std::string("\0\0\x08\x03", 4) + number(count) + number(28) + number(28),
                labels = std::string("\0\0\x08\x01", 4) + number(count);
    for (std::uint8_t i = 0; i < count; ++i) {
      images += std::string(28 * 28, static_cast<char>(i));
      labels += static_cast<char>(i % 10);
    }
    put(part + "-images-idx3-ubyte", images);
    put(part + "-labels-idx1-ubyte", labels);
  }
};

/// One weight; what it is trained on.
struct Sees : torch::nn::Module {
  torch::Tensor weight = register_parameter("weight", torch::ones({1}));
  std::vector<torch::Tensor> seen = {};
  torch::Tensor training_step(Batch const& batch) {
    seen.push_back(batch.data.clone());
    return (batch.data.to(torch::kFloat).mean() * weight).sum();
  }
  auto configure_optimizers() { return torch::optim::SGD(parameters(), 0.1); }
};

/// Which images a loader yields, by their grey.
std::multiset<int> greys(auto& loader) {
  std::multiset<int> all;
  for (auto& batch : loader)
    for (std::int64_t i = 0; i < batch.data.size(0); ++i) {
      auto const grey = static_cast<int>(std::lround(255 * batch.data[i].mean().template item<float>()));
      REQUIRE(batch.target[i].template item<std::int64_t>() == grey % 10);
      all.insert(grey);
    }
  return all;
}

}  // namespace

TEST_CASE("MNIST's two parts become three loaders") {
  Folder const folder;
  folder.put_mnist("train", 50);
  folder.put_mnist("t10k", 20);
  auto module = mnist(folder.path, {.validation = 0.2, .batch_size = 16});
  auto& batch = *module.train_dataloader().begin();
  CHECK(batch.data.sizes() == torch::IntArrayRef{16, 1, 28, 28});
  CHECK(batch.data.scalar_type() == torch::kFloat);
  CHECK(batch.target.scalar_type() == torch::kLong);
  CHECK(module.train_dataloader().size() == 3);
  auto seen = greys(module.train_dataloader());
  auto const validation = greys(module.val_dataloader());
  CHECK(seen.size() == 40);
  CHECK(validation.size() == 10);
  seen.insert(validation.begin(), validation.end());
  CHECK(std::set<int>(seen.begin(), seen.end()).size() == 50);
  CHECK(greys(module.test_dataloader()).size() == 20);

  auto same = mnist(folder.path, {.validation = 10}), other = mnist(folder.path, {.validation = 10, .seed = 1});
  CHECK(greys(same.val_dataloader()) == validation);
  CHECK(greys(other.val_dataloader()) != validation);
  CHECK(refusal([&] { mnist(folder.path, {.validation = 50}); }) == "fulgurite.data.share");
}

TEST_CASE("one part alone is split, and has no test set") {
  Folder const folder;
  folder.put_mnist("t10k", 30);
  auto module =
      mnist(folder.path, {.normalise = true, .validation = 5, .batch_size = 7, .shuffle = false, .drop_last = true});
  CHECK(module.train_dataloader().size() == 3);
  CHECK(module.val_dataloader().size() == 1);
  CHECK_FALSE(module.has_test());
  CHECK(refusal([&] { module.test_dataloader(); }) == "fulgurite.data.no_test_set");
  auto const& first = *module.train_dataloader().begin();
  auto const grey = first.data[0][0][0][0].item<double>() * 0.3081 + 0.1307;
  CHECK(std::lround(255 * grey) == first.target[0].item<std::int64_t>());
  auto whole = mnist(folder.path, {.validation = 0});
  CHECK(whole.val_dataloader().size() == 0);
  for (char const* kind : {"-images-idx3-ubyte", "-labels-idx1-ubyte"})
    std::filesystem::rename(folder.path / ("t10k" + std::string(kind)), folder.path / ("train" + std::string(kind)));
  CHECK_FALSE(mnist(folder.path).has_test());
}

TEST_CASE("a folder without MNIST, or with half of it, is refused") {
  Folder const folder;
  CHECK(refusal([&] { mnist(folder.path); }) == "fulgurite.data.mnist_missing");
  CHECK(refusal([] { mnist("/no/such/folder"); }) == "fulgurite.data.mnist_missing");
  folder.put_mnist("train", 5);
  folder.put("t10k-labels-idx1-ubyte", "");
  CHECK(refusal([&] { mnist(folder.path); }) == "fulgurite.data.mnist_missing");
}

TEST_CASE("digits of 8 x 8 are split into training and validation, and 16 is white") {
  Folder const folder;
  CHECK(refusal([&] { digits8x8(folder.path); }) == "fulgurite.data.digits_missing");
  std::string text;
  for (int i = 0; i < 17; ++i) {
    for (int j = 0; j < 64; ++j) text += std::to_string(i) + ",";
    text += std::to_string(i % 10) + "\n";
  }
  folder.put("digits.csv", text);
  auto module = digits8x8(folder.path, {.validation = 4, .batch_size = 5});
  std::multiset<int> seen;
  auto const look = [&](auto& loader, std::int64_t samples) {
    CHECK(loader.layout().samples == samples);
    for (auto& batch : loader)
      for (std::int64_t i = 0; i < batch.data.size(0); ++i) {
        CHECK(batch.data[i].sizes() == torch::IntArrayRef({1, 8, 8}));
        auto const value = static_cast<int>(std::lround(16 * batch.data[i].mean().template item<float>()));
        CHECK(batch.target[i].template item<std::int64_t>() == value % 10);
        seen.insert(value);
      }
  };
  look(module.train_dataloader(), 13);
  look(module.val_dataloader(), 4);
  CHECK(seen.size() == 17);
  CHECK(std::set<int>(seen.begin(), seen.end()).size() == 17);
  CHECK_FALSE(module.has_test());
}

TEST_CASE("drawn digits have the shape of MNIST's, and a transform sees training batches only") {
  int seen = 0;
  auto module = digits({.train = 30, .validation = 20, .test = 10, .batch_size = 8}, [&](Batch batch) {
    ++seen;
    return batch;
  });
  for (auto& batch : module.val_dataloader()) CHECK(batch.data.sizes().slice(1) == torch::IntArrayRef{1, 28, 28});
  for (auto& batch : module.test_dataloader()) CHECK(batch.data.max().item<float>() <= 1);
  CHECK(seen == 0);
  std::int64_t images = 0;
  for (auto& batch : module.train_dataloader()) images += batch.data.size(0);
  CHECK(images == 30);
  CHECK(seen == 4);
  auto plain = digits({.train = 10, .validation = 10, .test = 10, .batch_size = 10, .shuffle = false});
  CHECK_FALSE((*plain.test_dataloader().begin()).data.equal((*plain.train_dataloader().begin()).data));
  CHECK_FALSE((*plain.val_dataloader().begin()).data.equal((*plain.train_dataloader().begin()).data));
  CHECK(refusal([] { digits({.train = 0}); }) == "fulgurite.data.digits");
}

TEST_CASE("text becomes blocks and the same blocks one on") {
  std::string content;
  for (int i = 0; i < 100; ++i) content += static_cast<char>('a' + i % 26);
  auto module = text_of(content, {.block = 5, .validation = 0.25, .batch_size = 4, .seed = 1});
  CHECK(module.vocabulary().size() == 26);
  CHECK(module.decode(module.encode("hello")) == "hello");

  auto& train = module.train_dataloader();
  CHECK(train.size() == 4);  // 75 characters are 14 pieces
  std::vector<torch::Tensor> epoch, again;
  train.set_epoch(3);
  for (auto& batch : train) {
    CHECK(batch.data.sizes() == torch::IntArrayRef{4, 5});
    CHECK(batch.target.equal((batch.data + 1) % 26));
    epoch.push_back(batch.data);
  }
  train.set_epoch(3);
  for (auto& batch : train) again.push_back(batch.data);
  CHECK(torch::stack(epoch).equal(torch::stack(again)));
  train.set_epoch(3);
  train.resume_at(2);
  CHECK((*train.begin()).data.equal(epoch[2]));
  CHECK_FALSE((*train.begin()).data.equal(epoch[0]));  // the next epoch

  std::string read;
  for (auto& batch : module.val_dataloader())
    for (std::int64_t row = 0; row < batch.data.size(0); ++row)
      read += module.decode({batch.data[row].data_ptr<std::int64_t>(), 5});
  CHECK(read == content.substr(75, 20));  // 25 characters: 4 pieces, each with a character after it
  CHECK(text_of(content, {.block = 5, .batches = 100, .batch_size = 4}).train_dataloader().size() == 100);
}

TEST_CASE("put in order, as overfit_batches asks for, each epoch of every module has the same batches") {
  auto const epoch = [](auto& loader, long number) {
    loader.set_epoch(number);
    std::vector<torch::Tensor> all;
    for (auto& batch : loader) all.push_back(batch.data.clone());
    return torch::cat(all);
  };
  auto const repeats = [&](auto& loader) {
    CHECK_FALSE(torch::equal(epoch(loader, 0), epoch(loader, 1)));
    loader.in_order(true);
    auto const first = epoch(loader, 0);
    CHECK(torch::equal(first, epoch(loader, 1)));
    loader.in_order(false);
    CHECK_FALSE(torch::equal(epoch(loader, 1), epoch(loader, 2)));
  };
  Folder folder;
  folder.put_mnist("train", 20);
  auto images = mnist(folder.path, {.batch_size = 4});
  repeats(images.train_dataloader());
  auto const noisy = [](Batch batch, Random& random) {
    batch.data += static_cast<double>(random.below(1000));
    return batch;
  };
  auto drawn = digits({.train = 8, .validation = 2, .batch_size = 4}, noisy);
  repeats(drawn.train_dataloader());
  auto words = text_of(std::string(50, 'a') + "bcdefghijklmnopqrstuvwxyz", {.block = 4, .batch_size = 2});
  repeats(words.train_dataloader());
}

TEST_CASE("a fit with overfit_batches sees the same batches of shuffled MNIST, digits and text in each epoch") {
  auto const repeats = [](auto module) {
    auto const seen = [&](fulgurite::TrainerOptions options) {
      options.max_epochs = 3;
      options.num_sanity_val_steps = 0;
      Sees model;
      auto trainer =
          fulgurite::make_trainer<Sees>(options, fulgurite::SingleDevice{fulgurite::cpu}, fulgurite::Float32{},
                                        fulgurite::Automatic{}, fulgurite::NoDefaults{});
      trainer.fit(model, module.train_dataloader());
      REQUIRE(model.seen.size() == 6);
      std::vector<torch::Tensor> epochs;
      for (std::size_t i = 0; i != 6; i += 2) epochs.push_back(torch::stack({model.seen[i], model.seen[i + 1]}));
      return epochs;
    };
    auto const same = seen({.overfit_batches = fulgurite::Batches{2}});
    CHECK(torch::equal(same[0], same[1]));
    CHECK(torch::equal(same[0], same[2]));
    auto const shuffled = seen({.limit_train_batches = fulgurite::Batches{2}});
    CHECK_FALSE(torch::equal(shuffled[0], shuffled[1]));
  };
  Folder const folder;
  folder.put_mnist("train", 40);
  repeats(mnist(folder.path, {.batch_size = 4, .shuffle = true}));
  repeats(digits({.train = 20, .validation = 2, .batch_size = 4, .shuffle = true}));
  std::string content;
  for (int i = 0; i < 200; ++i) content += static_cast<char>('a' + i % 23);
  repeats(text_of(content, {.block = 4, .batch_size = 2}));
}

TEST_CASE("blocks reach the whole text") {
  BlockLoader loader{{0, 1, 2, 3}, {.block = 2, .batches = 1, .batch_size = 64}};
  auto const& batch = *loader.begin();
  CHECK(batch.data.min().item<std::int64_t>() == 0);
  CHECK(batch.target.max().item<std::int64_t>() == 3);
}

TEST_CASE("text that is missing or too short is refused") {
  Folder const folder;
  folder.put("a", "some text");
  folder.put("b", " and more");
  folder.put("latin", "caf\xe9");
  folder.put("empty", "");
  TextOptions const options{.block = 2, .validation = 0.5, .batch_size = 1};
  auto both = text({folder.path / "a", folder.path / "b"}, options);
  CHECK(both.vocabulary().characters() == " ademnorstx");
  CHECK(text(folder.path / "a", options).vocabulary().size() == 7);
  CHECK(text((folder.path / "a").string(), options).vocabulary().size() == 7);
  CHECK(refusal([&] { text(folder.path / "c", options); }) == "fulgurite.data.file");
  CHECK(refusal([&] { text(folder.path / "latin", options); }) == "fulgurite.data.utf8");
  CHECK(refusal([&] { text(folder.path / "empty", options); }) == "fulgurite.data.text");
  CHECK(refusal([&] { text(folder.path / "a"); }) == "fulgurite.data.block");
  CHECK(refusal([] { BlockLoader({1, 2, 3}, {.block = 0}); }) == "fulgurite.data.block");
  CHECK(refusal([] { BlockLoader({1, 2, 3}, {.block = 2, .batches = -1, .batch_size = 1}); }) ==
        "fulgurite.data.batches");
}

TEST_CASE("a saved block loader goes on where it stopped") {
  std::vector<std::int64_t> numbers(100);
  for (std::size_t i = 0; i < 100; ++i) numbers[i] = static_cast<std::int64_t>(i);
  BlockLoader first{numbers, {.block = 4, .batch_size = 3, .seed = 1}},
      second{numbers, {.block = 4, .batch_size = 3, .seed = 1}};
  auto at = first.begin();
  ++at;
  auto const expected = (*at).data.clone();
  data_test::load(second, data_test::saved(first));
  CHECK((*second.begin()).data.equal(expected));
}

TEST_CASE("modules: workers make the batches of MNIST, of digits and of text ahead, and they are the same") {
  Folder const folder;
  folder.put_mnist("train", 20);
  auto const batches = [](auto module, std::vector<torch::Tensor>& all) {
    for (auto& batch : module.train_dataloader()) all.insert(all.end(), {batch.data.clone(), batch.target.clone()});
    for (auto& batch : module.val_dataloader()) all.push_back(batch.data.clone());
    return module.train_dataloader().waited().workers;
  };
  std::vector<torch::Tensor> here, ahead;
  auto const all_of = [&](int workers, std::vector<torch::Tensor>& all) {
    using namespace std::chrono_literals;
    auto const timeout = workers > 0 ? 60000ms : 0ms;
    MnistOptions mnist_options{.batch_size = 4, .seed = 3, .workers = workers, .timeout = timeout};
    CHECK(batches(mnist(folder.path, mnist_options), all) == workers);
    DigitsOptions const drawn{.train = 9, .validation = 3, .batch_size = 4, .workers = workers, .timeout = timeout};
    CHECK(batches(digits(drawn), all) == workers);
    TextOptions const cut{.block = 4, .batch_size = 2, .workers = workers, .timeout = timeout};
    CHECK(batches(text_of("a text of some letters, cut into pieces of four, more than two of them", cut), all) ==
          workers);
  };
  all_of(0, here);
  all_of(2, ahead);
  REQUIRE(here.size() == ahead.size());
  CHECK(here.size() > 20);
  for (std::size_t i = 0; i != here.size(); ++i) CHECK(here[i].equal(ahead[i]));
}
