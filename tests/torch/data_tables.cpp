// Data modules of tables, time series and pictures in folders on LibTorch.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <torch/torch.h>
// After LibTorch, which has a CHECK of its own.
#include <catch2/catch_test_macros.hpp>

#include <fulgurite/core/archive.hpp>
#include <fulgurite/torch/data/image_folder.hpp>
#include <fulgurite/torch/data/mnist.hpp>
#include <fulgurite/torch/data/table.hpp>
#include <fulgurite/torch/data/text.hpp>

#include "../unit/checkpoint_folder.hpp"
#include "../unit/data_testing.hpp"

using namespace fulgurite::data;
using data_test::refusal, data_test::sentence;

namespace {

void write(std::filesystem::path const& path, std::string const& bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

/// All rows of a loader, in the order of their targets.
struct Rows {
  torch::Tensor data, target;
  explicit Rows(auto& loader) {
    std::vector<torch::Tensor> all, targets;
    for (auto& batch : loader) all.push_back(batch.data.clone()), targets.push_back(batch.target.clone());
    auto const order =
        torch::cat(targets).view({-1, targets.front().numel() / targets.front().size(0)}).select(1, 0).argsort();
    data = torch::cat(all).index_select(0, order);
    target = torch::cat(targets).index_select(0, order);
  }
};

std::string houses(int rows, int shift = 0) {
  std::string text = "area,zip,price\n";
  for (int i = 0; i != rows; ++i) {
    text += i % 7 == 3 ? "" : std::to_string(i + shift);
    text += i % 3 == 0 ? ",8001," : ",8002,";
    text += std::to_string(i) + "\n";
  }
  return text;
}

}  // namespace

TEST_CASE("a table is a module of two lines: standardised by its training rows, one column a category") {
  probe::Folder const folder;
  write(folder.path / "houses.csv", houses(50));
  TableOptions const options{.target = "price", .types = {.categories = {"zip"}}, .batch_size = 8, .seed = 3};
  auto houses_data = table(folder.path / "houses.csv", options);
  CHECK(houses_data.features() == std::vector<std::string>{"area", "area is missing", "zip = 8001", "zip = 8002"});
  CHECK(houses_data.classes().empty());
  Rows const train(houses_data.train_dataloader()), val(houses_data.val_dataloader());
  REQUIRE(train.data.sizes() == torch::IntArrayRef{40, 4});
  REQUIRE(val.target.sizes() == torch::IntArrayRef{10, 1});
  auto const all = torch::cat({train.target, val.target}).view(-1);
  CHECK(std::get<0>(all.sort()).equal(torch::arange(50, torch::kFloat)));
  auto const there = train.data.select(1, 1) == 0;
  auto const area = train.data.select(1, 0).masked_select(there);
  CHECK(std::abs(area.mean().item<float>()) < 1e-6F);
  CHECK(std::abs(area.std(false).item<float>() - 1) < 1e-6F);
  CHECK(train.data.select(1, 0).masked_select(there.logical_not()).eq(0).all().item<bool>());

  // Other rows are seen as those of training were, by the state of a checkpoint, too.
  write(folder.path / "other.csv", "zip,area\n8002,7\n8003,\n");
  auto const standard = houses_data.encoding().columns()[0].standard;
  auto const other = houses_data.inputs(folder.path / "other.csv");
  CHECK(other.equal(torch::tensor({{static_cast<float>(standard(7)), 0.0F, 0.0F, 1.0F}, {0.0F, 1.0F, 0.0F, 0.0F}})));
  write(folder.path / "shifted.csv", houses(50, 1000));
  auto shifted = table(folder.path / "shifted.csv", options);
  CHECK(shifted.encoding().columns()[0].standard.mean > 1000);
  fulgurite::load_state_text(shifted, fulgurite::state_text(houses_data));
  CHECK(shifted.inputs(folder.path / "other.csv").equal(other));
  auto const row = Rows(shifted.train_dataloader()).data[0];
  CHECK(row[0].item<float>() > 50);  // the loaders have what was loaded

  // A target of numbers is scaled by the training rows where that is wanted, predictions are converted back, and a
  // checkpoint holds both.
  TableOptions scaled_options = options;
  scaled_options.standardize_target = true;
  auto scaled = table(folder.path / "houses.csv", scaled_options);
  Rows const scaled_train(scaled.train_dataloader()), scaled_val(scaled.val_dataloader());
  CHECK(std::abs(scaled_train.target.mean().item<float>()) < 1e-6F);
  CHECK(std::abs(scaled_train.target.std(false).item<float>() - 1) < 1e-6F);
  CHECK(scaled.in_units(scaled_val.target).allclose(val.target));
  CHECK(houses_data.in_units(val.target).equal(val.target));
  auto restored = table(folder.path / "houses.csv", options);
  fulgurite::load_state_text(restored, fulgurite::state_text(scaled));
  CHECK(Rows(restored.val_dataloader()).target.equal(scaled_val.target));
  CHECK(restored.in_units(scaled_val.target).allclose(val.target));
  scaled_options.target = "zip";
  CHECK(sentence([&] {
          table(folder.path / "houses.csv", scaled_options);
        }).find("'zip' is a category, which has no mean: remove .standardize_target") != std::string::npos);

  // A cell that is no number makes no categories of a column of numbers, here or in the target.
  write(folder.path / "odd.csv", "x,y,note\n1,3,a\n2,4,1\n3,?4,2\n");
  auto const odd = [&](TableTypes types) {
    return sentence([&] { table(folder.path / "odd.csv", {.target = "y", .types = std::move(types)}); });
  };
  CHECK(odd({.leave_out = {"note"}})
            .find("odd.csv: line 4 has '?4' in the column 'y', where 2 of 3 values are numbers") != std::string::npos);
  CHECK(odd({.categories = {"y"}, .leave_out = {"note"}}) == "nothing was thrown");
  CHECK(odd({.categories = {"y"}}).find("line 2 has 'a' in the column 'note'") != std::string::npos);
  CHECK(refusal([&] { windows(folder.path / "odd.csv", {.length = 1}); }) == "fulgurite.data.column_type");
  auto noted = table(folder.path / "odd.csv", {.target = "y", .types = {.categories = {"y"}, .leave_out = {"note"}}});
  CHECK(noted.inputs(folder.path / "odd.csv").sizes() == torch::IntArrayRef{3, 1});

  write(folder.path / "gone.csv", "x,y\n1,a\n2,\n3,b\n");
  CHECK(sentence([&] { table(folder.path / "gone.csv", {.target = "y"}); }) ==
        "[fulgurite.data.target] " + (folder.path / "gone.csv").string() +
            ": line 3 has no 'y', which is to be predicted: remove the line");
  CHECK(refusal([&] { table(folder.path / "gone.csv", {.target = "z"}); }) == "fulgurite.data.column");
  write(folder.path / "classes.csv", "x,y\n1,b\n2,a\n3,b\n4,a\n");
  auto classes = table(folder.path / "classes.csv", {.target = "y", .validation = 1, .shuffle = false, .workers = 1});
  CHECK(refusal([&] { table(folder.path / "classes.csv", {.target = "y", .workers = 1, .prefetch = 0}); }) ==
        "fulgurite.data.prefetch");
  CHECK(refusal([&] { table(folder.path / "classes.csv", {.target = "y", .timeout = std::chrono::seconds(1)}); }) ==
        "fulgurite.data.timeout");
  CHECK(classes.classes() == std::vector<std::string>{"a", "b"});
  CHECK(classes.train_dataloader().begin()->target.scalar_type() == torch::kLong);
  auto const trained = fulgurite::state_text(classes);
  auto const goes_on = [&](std::string const& text) {
    write(folder.path / "changed.csv", text);
    auto changed = table(folder.path / "changed.csv", {.target = "y", .validation = 1});
    return sentence([&] { fulgurite::load_state_text(changed, trained); });
  };
  CHECK(goes_on("x,y\n1,a\n2,b\n5,a\n4,b\n") == "nothing was thrown");
  CHECK(goes_on("x,y\n1,b\n2,c\n3,b\n4,c\n") ==
        "[fulgurite.data.table_changed] " + (folder.path / "changed.csv").string() +
            ": the table has 4 rows and the classes b, c, and the checkpoint was trained on 4 rows and the classes a, "
            "b: give the same file, or restore what was learned from it by data_state<data::TableInputs>(checkpoint), "
            "and "
            "encode rows by its inputs(file)");
  CHECK(goes_on("x,y\n1,b\n2,a\n3,b\n").find("has 3 rows and the classes a, b, and") != std::string::npos);
}

TEST_CASE("windows of a series: what is seen and what follows it, standardised by the time steps of training") {
  auto const series = torch::stack({torch::arange(100, torch::kFloat), torch::arange(100, torch::kFloat) * -2}, 1);
  WindowOptions const plain{
      .length = 5, .horizon = 2, .stride = 3, .targets = {"1"}, .standardize = false, .batch_size = 4};
  auto data = windows(series, plain);
  for (auto* loader : {&data.val_dataloader()})
    for (auto& batch : *loader) {
      REQUIRE(batch.data.sizes().slice(1) == torch::IntArrayRef{5, 2});
      REQUIRE(batch.target.sizes().slice(1) == torch::IntArrayRef{2, 1});
      auto const first = batch.data.select(2, 0).select(1, 0);
      CHECK(first.ge(80).all().item<bool>());
      CHECK(batch.target.select(2, 0).equal(-2 * (first.unsqueeze(1) + torch::tensor({5.0F, 6.0F}))));
      CHECK(batch.data.select(2, 0).equal(first.unsqueeze(1) + torch::arange(5, torch::kFloat)));
    }
  Rows const train(data.train_dataloader());
  CHECK(train.data.size(0) == (80 - 7) / 3 + 1);
  CHECK(train.data.max().item<float>() < 80);

  auto options = plain;
  options.standardize = true;
  options.workers = 2;
  auto scaled = windows(series, options);
  CHECK(scaled.standardization()[0].mean == 39.5);
  Rows const seen(scaled.train_dataloader());
  CHECK(torch::allclose(scaled.in_units(seen.target), train.target, 1e-5, 1e-3));
  auto other = windows(series + 7, options);
  fulgurite::load_state_text(other, fulgurite::state_text(scaled));
  CHECK(other.standardization()[0].mean == 39.5);
  auto const moved = Rows(other.train_dataloader()).data - seen.data;
  CHECK(torch::allclose(moved.select(2, 0),
                        torch::full_like(moved.select(2, 0), 7 / scaled.standardization()[0].deviation)));
  CHECK(refusal([&] {
          auto one = windows(torch::arange(100), {.length = 5});
          fulgurite::load_state_text(one, fulgurite::state_text(scaled));
        }) == "fulgurite.data.series_changed");
  CHECK(refusal([&] { windows(torch::zeros({4, 4, 4}), {}); }) == "fulgurite.data.series");
  CHECK(sentence([&] {
          windows(torch::tensor({1.0F, std::nanf(""), 2.0F}), {});
        }).find("at time step 1 in the column '0' is missing:") != std::string::npos);
  CHECK(refusal([&] { windows(series, {.length = 5, .targets = {"x"}}); }) == "fulgurite.data.column");

  probe::Folder const folder;
  std::string text = "day,load\n";
  for (int i = 0; i != 30; ++i) text += (i % 2 == 0 ? "mon," : "tue,") + std::to_string(i) + "\n";
  write(folder.path / "load.csv", text);
  auto load = windows(folder.path / "load.csv", {.length = 4, .targets = {"load"}, .standardize = false});
  CHECK(load.val_dataloader().begin()->data.sizes() == torch::IntArrayRef{2, 4, 1});

  // Times in seconds keep their differences: they are doubles until they are standardised.
  std::string late = "time\n", early = late;
  for (int i = 0; i != 40; ++i) late += std::to_string(1700000000 + i) + "\n", early += std::to_string(i) + "\n";
  auto const first = [&](std::string const& times) {
    write(folder.path / "times.csv", times);
    return windows(folder.path / "times.csv", {.length = 4, .shuffle = false}).train_dataloader().begin()->data;
  };
  CHECK(torch::allclose(first(late), first(early)));
  WindowOptions read_ahead{.length = 4, .workers = 1, .prefetch = 0};
  CHECK(refusal([&] { windows(folder.path / "times.csv", read_ahead); }) == "fulgurite.data.prefetch");
  read_ahead = {.length = 4, .timeout = std::chrono::seconds(1)};
  CHECK(refusal([&] { windows(folder.path / "times.csv", read_ahead); }) == "fulgurite.data.timeout");
}

TEST_CASE("pictures in folders are a module of one line: read by workers, resized, transformed in training alone") {
  probe::Folder const folder;
  for (int i = 0; i != 8; ++i) {
    std::string const name = std::to_string(i) + ".pgm",
                      grey(static_cast<std::size_t>(4 + i), static_cast<char>(i * 20));
    write(folder.path / "pets" / (i % 2 == 0 ? "cat" : "dog") / name,
          "P5 1 " + std::to_string(4 + i) + " 255\n" + grey);
    write(folder.path / "more" / (i % 2 == 0 ? "cat" : "dog") / name, "P6 1 1 255\n" + std::string{1, 2, 3});
  }
  auto const darker = [](Batch batch) {
    batch.data -= 2;
    return batch;
  };
  ImageFolderOptions const options{
      .channels = 1, .height = 6, .width = 3, .validation = 2, .batch_size = 3, .seed = 1, .workers = 2};
  auto pets = image_folder(folder.path / "pets", options, darker);
  CHECK(pets.classes() == std::vector<std::string>{"cat", "dog"});
  std::map<int, std::int64_t> greys;
  auto const collect = [&](auto& loader, float offset) {
    for (auto& batch : loader) {
      REQUIRE(batch.data.sizes().slice(1) == torch::IntArrayRef{1, 6, 3});
      for (std::int64_t i = 0; i != batch.data.size(0); ++i)
        greys[static_cast<int>(std::lround(255 * (batch.data[i].mean().template item<float>() - offset)))] =
            batch.target[i].template item<std::int64_t>();
    }
  };
  collect(pets.train_dataloader(), -2);
  CHECK(greys.size() == 6);
  collect(pets.val_dataloader(), 0);
  CHECK(greys == std::map<int, std::int64_t>{{0, 0}, {20, 1}, {40, 0}, {60, 1}, {80, 0}, {100, 1}, {120, 0}, {140, 1}});

  auto const noisy = [](Batch batch, Random& random) {
    batch.data += static_cast<float>(random.uniform());
    return batch;
  };
  auto one = image_folder(folder.path / "pets", options, noisy), alone = image_folder(
                                                                     folder.path / "pets",
                                                                     [&] {
                                                                       auto without = options;
                                                                       without.workers = 0;
                                                                       return without;
                                                                     }(),
                                                                     noisy);
  for (int epoch = 0; epoch < 2; ++epoch)
    CHECK(Rows(one.train_dataloader()).data.equal(Rows(alone.train_dataloader()).data));

  auto const by_row = [](Batch batch, BatchRandom& random) {
    for (std::size_t i = 0; i != static_cast<std::size_t>(batch.data.size(0)); ++i)
      batch.data[static_cast<std::int64_t>(i)] = random.row(i).uniform();
    return batch;
  };
  auto const drawn = [&](int rank, int world) {
    auto pictures = image_folder(
        folder.path / "pets", {.height = 1, .width = 1, .validation = 2, .batch_size = 6 / world, .seed = 1}, by_row);
    if (world != 1) pictures.train_dataloader().shard(rank, world, true);
    std::vector<float> all;
    for (auto& batch : pictures.train_dataloader())
      for (std::int64_t i = 0; i != batch.data.size(0); ++i) all.push_back(batch.data[i][0][0][0].item<float>());
    return all;
  };
  auto first = drawn(0, 2), whole = drawn(0, 1);
  auto const second = drawn(1, 2);
  CHECK(first != second);
  first.insert(first.end(), second.begin(), second.end());
  std::ranges::sort(first), std::ranges::sort(whole);
  CHECK(first == whole);

  auto two = image_folder(folder.path / "pets", {.height = 2, .width = 2, .validation_folder = folder.path / "more"});
  CHECK(two.train_dataloader().size() == 1);
  auto const seen = two.val_dataloader().begin()->data;
  CHECK(seen.sizes() == torch::IntArrayRef{8, 3, 2, 2});
  CHECK(torch::allclose(seen.select(1, 2), torch::full({8, 2, 2}, 3.0 / 255)));
  auto kept = image_folder(folder.path / "pets", {.workers = 1});
  CHECK(refusal([&] { kept.train_dataloader().begin(); }) == "fulgurite.data.collate");  // they differ in size
  CHECK(data_test::sentence([&] {
          image_folder(folder.path / "pets", {.channels = 2});
        }).find("[fulgurite.data.image_size] .channels must be 1 or 3, got 2") == 0);
  CHECK(refusal([&] { image_folder(folder.path / "pets", {.height = 2}); }) == "fulgurite.data.image_size");
  write(folder.path / "more" / "eel" / "1.pgm", "P5 1 1 255\nx");
  CHECK(refusal([&] { image_folder(folder.path / "pets", {.validation_folder = folder.path / "more"}); }) ==
        "fulgurite.data.image_folder");
}

namespace {

template <class Options>
constexpr bool shuffles = requires(Options o) { o.shuffle; };
/// What docs/data.md says of a module's options.
template <class Options>
void has_options_of_a_module(long batch_size) {
  Options const o;
  CHECK(o.batch_size == batch_size);
  CHECK((o.seed == 0 && o.workers == 0 && o.prefetch == 2 && o.persistent_workers && o.timeout.count() == 0));
  CHECK(!o.pin_memory);
  // In the one order that all have, or this does not compile.
  using std::chrono::milliseconds;
  if constexpr (shuffles<Options>) {
    CHECK((o.shuffle && !o.drop_last));
    CHECK(Options{.validation = 1,
                  .batch_size = 2,
                  .shuffle = false,
                  .seed = 3,
                  .drop_last = true,
                  .workers = 4,
                  .prefetch = 5,
                  .persistent_workers = false,
                  .timeout = milliseconds(6),
                  .pin_memory = true}
              .pin_memory);
  } else {
    CHECK(Options{.block = 7,
                  .batches = 8,
                  .validation = 1,
                  .batch_size = 2,
                  .seed = 3,
                  .workers = 4,
                  .prefetch = 5,
                  .persistent_workers = false,
                  .timeout = milliseconds(6),
                  .pin_memory = true}
              .pin_memory);
  }
}

}  // namespace

TEST_CASE("every data module has the options that all have, under the same names and in one order") {
  has_options_of_a_module<TableOptions>(32);
  has_options_of_a_module<ImageFolderOptions>(32);
  has_options_of_a_module<WindowOptions>(32);
  has_options_of_a_module<MnistOptions>(64);
  has_options_of_a_module<DigitsOptions>(64);
  has_options_of_a_module<Digits8x8Options>(64);
  has_options_of_a_module<TextOptions>(32);
  STATIC_REQUIRE(!shuffles<TextOptions>);
}

TEST_CASE("the loaders of tensors have their options in the order of data::Loader") {
  using std::chrono::milliseconds;
  CHECK(TensorLoaderOptions{.batch_size = 2,
                            .shuffle = true,
                            .seed = 3,
                            .drop_last = true,
                            .workers = 4,
                            .prefetch = 5,
                            .persistent_workers = false,
                            .timeout = milliseconds(6),
                            .pin_memory = true}
            .pin_memory);
  CHECK(GatherOptions{.batch_size = 2,
                      .seed = 3,
                      .drop_last = true,
                      .workers = 4,
                      .prefetch = 5,
                      .persistent_workers = false,
                      .timeout = milliseconds(6),
                      .pin_memory = true}
            .pin_memory);
  CHECK(BlockOptions{.block = 7,
                     .random = false,
                     .batches = 8,
                     .batch_size = 2,
                     .seed = 3,
                     .workers = 4,
                     .prefetch = 5,
                     .persistent_workers = false,
                     .timeout = milliseconds(6),
                     .pin_memory = true}
            .pin_memory);
}
