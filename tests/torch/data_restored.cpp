// What a checkpoint keeps beside the weights: of a data module, without which a model would see other rows than it was
// trained on, and of the model itself.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <torch/torch.h>
// After LibTorch, which has a CHECK of its own.
#include <catch2/catch_test_macros.hpp>

#include <fulgurite/fulgurite.hpp>
#include <fulgurite/torch/data/image_folder.hpp>
#include <fulgurite/torch/data/mnist.hpp>
#include <fulgurite/torch/data/table.hpp>
#include <fulgurite/torch/data/text.hpp>
#include <fulgurite/torch/weights/checkpoint_file.hpp>

#include "../unit/checkpoint_folder.hpp"
#include "../unit/data_testing.hpp"

using namespace fulgurite;
using data_test::sentence;

namespace {

void write(std::filesystem::path const& path, std::string const& bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}
std::string houses(int first, int last) {
  std::string text = "area,zip,price\n";
  for (int i = first; i != last; ++i)
    text += std::to_string(i) + "," + std::to_string(8000 + i % 3) + "," + std::to_string(3 * i) + "\n";
  return text;
}

/// One linear layer.
struct Line : torch::nn::Module {
  static constexpr Metric<"val/mean"> val_mean{};
  using Metrics = MetricList<val_mean>;
  torch::nn::Linear layer;
  explicit Line(std::size_t features)
      : layer(register_module("layer", torch::nn::Linear(static_cast<std::int64_t>(features), 1))) {}
  torch::Tensor forward(torch::Tensor const& x) { return layer->forward(x.to(torch::kFloat).flatten(1)); }
  torch::Tensor training_step(auto const& batch) { return forward(batch.data).square().mean(); }
  void validation_step(auto const& batch, auto& ctx) { ctx.log(val_mean, forward(batch.data).mean()); }
  auto configure_optimizers() { return torch::optim::SGD(parameters(), 0.01); }
};
template <class Model = Line>
auto make() {
  return make_trainer<Model>(TrainerOptions{.max_epochs = 1}, SingleDevice{cpu}, NoDefaults{});
}
/// A run of a model over that module, and its file.
template <class Module>
Line trained(Module& module, std::size_t features, std::filesystem::path const& file) {
  Line model(features);
  auto trainer = make();
  trainer.fit(model, module);
  trainer.save_checkpoint(file);
  return model;
}
/// A file of a run that was given loaders, and no data module.
template <class Model>
void second_file(Model& model, std::filesystem::path const& file) {
  auto trainer = make<Model>();
  std::vector<data::Batch> batches{{torch::zeros({1, model.layer->weight.size(1)}), torch::zeros({1})}};
  trainer.fit(model, batches, batches);
  trainer.save_checkpoint(file);
}
/// What an evaluation from a file says of another module.
template <class Module>
std::string evaluated(Module& module, std::size_t features, std::filesystem::path const& file) {
  Line model(features);
  auto trainer = make();
  return sentence([&] { trainer.validate(model, module, CkptPath{file}); });
}

}  // namespace

TEST_CASE("load_weights never leaves out what the file keeps of a data module") {
  probe::Folder const folder;
  auto const file = folder / "last.safetensors";
  write(folder / "all.csv", houses(0, 50));
  write(folder / "first.csv", houses(0, 10));
  write(folder / "new.csv", houses(90, 93));
  data::TableOptions const options{.target = "price", .types = {.categories = {"zip"}}};
  auto all = data::table(folder / "all.csv", options), first = data::table(folder / "first.csv", options);
  auto model = trained(all, all.features().size(), file);
  Line other(first.features().size());
  auto const before = other.layer->weight.detach().clone();
  CHECK(sentence([&] { load_weights(other, file); }).find("[fulgurite.checkpoint.data_state]") == 0);
  CHECK(other.layer->weight.equal(before));
  CHECK(sentence([&] { load_weights(other, file); }).find("('rows', 'classes', 'reading', 'encoding', 'target')") !=
        std::string::npos);
  CHECK(load_weights(other, file, {.without_data_state = true}).loaded.size() == 2);
  CHECK(load_weights(other, file, {.strict = false}).data_state.size() == 5);

  // Another table is refused; one of as many rows sees them as those of training were seen.
  Line third(first.features().size());
  CHECK(data_test::refusal([&] { load_weights(third, first, file); }) == "fulgurite.data.table_changed");
  CHECK_FALSE(third.layer->weight.equal(model.layer->weight));
  write(folder / "shifted.csv", houses(1000, 1050));
  auto shifted = data::table(folder / "shifted.csv", options);
  auto const here = shifted.inputs(folder / "new.csv");
  Line narrow(2);
  CHECK(data_test::refusal([&] { load_weights(narrow, shifted, file); }) == "fulgurite.checkpoint.weights_mismatch");
  CHECK(shifted.inputs(folder / "new.csv").equal(here));
  load_weights(third, shifted, file);
  CHECK(shifted.inputs(folder / "new.csv").equal(all.inputs(folder / "new.csv")));
  CHECK(third.layer->weight.equal(model.layer->weight));
  for (auto const& batch : shifted.train_dataloader()) CHECK(batch.data.select(1, 0).min().item<float>() > 10);
}

TEST_CASE("a program without the training file predicts the same bits, from the checkpoint alone") {
  probe::Folder const folder;
  auto const file = folder / "last.safetensors";
  write(
      folder / "all.csv", "area;zip;price\n" + [] {
        auto text = houses(0, 50);
        text.erase(0, text.find('\n') + 1);
        std::ranges::replace(text, ',', ';');
        return text;
      }() + "-9;;7\n");
  write(folder / "new.csv", "zip;note;area\n8001;a;41\n9999;1;-9\n;2;7.5\n");
  data::TableOptions const options{
      .target = "price", .types = {.categories = {"zip"}, .missing = {"", "-9"}}, .csv = {.separator = ';'}};
  auto all = data::table(folder / "all.csv", options);
  auto model = trained(all, all.features().size(), file);
  auto const expected = all.inputs(folder / "new.csv");
  std::filesystem::remove(folder / "all.csv");

  auto restored = data_state<data::TableInputs>(file);
  CHECK(restored.features() == all.features());
  CHECK(restored.inputs(folder / "new.csv").equal(expected));
  Line other(restored.features().size());
  load_weights(other, restored, file);
  {
    torch::NoGradGuard const no_graph;
    CHECK(other.forward(restored.inputs(folder / "new.csv")).equal(model.forward(expected)));
  }
  CHECK(data_test::refusal([&] { static_cast<void>(data_state<data::SeriesInputs>(file)); }) ==
        "fulgurite.checkpoint.state_entry");
  second_file(other, folder / "bare.safetensors");
  CHECK(data_test::refusal([&] { static_cast<void>(data_state<data::TableInputs>(folder / "bare.safetensors")); }) ==
        "fulgurite.checkpoint.no_data_state");
}

TEST_CASE(
    "numbers beyond floats are refused with line and column, in targets and in series, or given back as doubles") {
  probe::Folder const folder;
  write(folder / "t.csv", "x,y\n1,1\n2,1e39\n3,2\n");
  CHECK(sentence([&] {
          data::table(folder / "t.csv", {.target = "y"});
        }).find("t.csv: line 3 has 1e+39 in the column 'y'") != std::string::npos);
  std::string text = "load\n";
  for (int i = 0; i != 30; ++i) text += i == 28 ? "5e200\n" : std::to_string(i) + "\n";
  write(folder / "s.csv", text);
  CHECK(sentence([&] {
          data::windows(folder / "s.csv", {.length = 2});
        }).find("time step 28 in the column 'load', " + (folder / "s.csv").string() + ", line 30 is 5e+200") !=
        std::string::npos);
  CHECK(data_test::refusal([&] { data::windows(folder / "s.csv", {.length = 2, .standardize = false}); }) ==
        "fulgurite.data.series");
  write(folder / "gap.csv", "load\n1\n2\n\n4\n5\n6\n7\n8\n");
  CHECK(sentence([&] {
          data::windows(folder / "gap.csv", {.length = 1});
        }).find("time step 2 in the column 'load', " + (folder / "gap.csv").string() + ", line 4 is missing") !=
        std::string::npos);

  auto const large = torch::arange(40, torch::kDouble) * 1e170;
  auto series = data::windows(large, {.length = 2, .shuffle = false});
  auto const& batch = *series.train_dataloader().begin();
  CHECK(torch::allclose(series.in_units(batch.target).view(-1), large.slice(0, 2, 2 + batch.target.size(0)), 1e-6));
  CHECK(series.in_units(batch.target).scalar_type() == torch::kDouble);
  auto const usual = data::windows(torch::arange(40), {.length = 2});
  CHECK(usual.in_units(torch::zeros({1, 1, 1})).scalar_type() == torch::kFloat);
}

TEST_CASE("predictions keep their digits in units where a float has too few, and where they are doubles") {
  // Seconds since 1970, of some hours: near 1.7e9 the next float is 128 seconds away.
  auto const times = 1.7e9 + 1000 * torch::arange(40, torch::kDouble);
  auto const clock = data::windows(times, {.length = 2, .validation = 0, .shuffle = false});
  auto const& learned = clock.standardization()[0];
  auto const back = clock.in_units(((times - learned.mean) / learned.deviation).to(torch::kFloat));
  CHECK(back.scalar_type() == torch::kDouble);
  CHECK((back - times).abs().max().item<double>() < 0.01);
  auto const years = data::windows(torch::arange(1980, 2020, torch::kDouble), {.length = 2, .validation = 0});
  CHECK(years.in_units(torch::zeros({1})).scalar_type() == torch::kFloat);

  auto const thirds = data::windows(torch::arange(40, torch::kDouble) / 3, {.length = 2, .validation = 0});
  auto const& third = thirds.standardization()[0];
  auto const exact = thirds.in_units(torch::ones({1}, torch::kDouble));
  CHECK(exact.item<double>() == third.mean + third.deviation);
}

TEST_CASE("a file of a text with another vocabulary is refused, although its size is the same") {
  probe::Folder const folder;
  auto const file = folder / "last.safetensors";
  data::TextOptions const options{.block = 4, .validation = 0.4, .batch_size = 2};
  auto vowels = data::text_of("aeiouaeiouaeiouaeiou", options), others = data::text_of("abcdeabcdeabcdeabcde", options),
       same = data::text_of("uoieauoieauoieauoiea", options);
  trained(vowels, 4, file);
  CHECK(evaluated(same, 4, file) == "nothing was thrown");
  CHECK(evaluated(others, 4, file) ==
        "[fulgurite.data.text_changed] the text has another vocabulary (5 characters) than the one that the checkpoint "
        "was trained on (5): character 1 is 'b' here and 'e' in the checkpoint; give the same text, or encode yours by "
        "data_state<data::Vocabulary>(checkpoint)");
  CHECK(data_state<data::Vocabulary>(file).characters() == "aeiou");
}

TEST_CASE("a file of pictures in other folders is refused, although there are as many") {
  probe::Folder const folder;
  auto const file = folder / "last.safetensors";
  for (char const* name : {"one/cat/1.pgm", "one/dog/1.pgm", "one/cat/2.pgm", "one/dog/2.pgm", "two/cat/1.pgm",
                           "two/cow/1.pgm", "two/cow/2.pgm", "more/dog/7.pgm", "more/dog/8.pgm", "more/cat/7.pgm"})
    write(folder / name, "P5 1 1 255\nx");
  data::ImageFolderOptions const options{.channels = 1, .validation = 1, .batch_size = 2};
  auto one = data::image_folder(folder / "one", options), two = data::image_folder(folder / "two", options),
       more = data::image_folder(folder / "more", options);
  trained(one, 1, file);
  CHECK(evaluated(more, 1, file) == "nothing was thrown");
  CHECK(evaluated(two, 1, file).find("[fulgurite.data.classes_changed]") == 0);
  auto const sized = [&](data::ImageFolderOptions other) {
    other.validation = 1, other.batch_size = 2;
    auto module = data::image_folder(folder / "one", other);
    return evaluated(module, 1, file);
  };
  CHECK(sized({.channels = 1, .height = 2, .width = 3}) ==
        "[fulgurite.data.size_changed] the pictures have 1 channels, and are resized to 2 x 3, and those that the "
        "checkpoint was trained on have 1 channels, and keep the size of their files: give the same .channels, .height "
        "and .width, or restore those of the checkpoint by data_state<data::ImageInputs>(checkpoint)");
  CHECK(sized({.channels = 3}).find("[fulgurite.data.size_changed] the pictures have 3 channels") == 0);
  CHECK(sized({.channels = 1, .height = 1, .width = 1}).find("[fulgurite.data.size_changed]") == 0);
  CHECK(sized({.channels = 1}) == "nothing was thrown");
  auto const restored = data_state<data::ImageInputs>(file);
  CHECK(restored.classes() == std::vector<std::string>{"cat", "dog"});
  CHECK(restored.inputs(folder / "more/dog/7.pgm").sizes() == torch::IntArrayRef{1, 1, 1, 1});
}

TEST_CASE("a file of a series with the columns in another order is refused") {
  probe::Folder const folder;
  auto const file = folder / "last.safetensors";
  std::string there = "load,temperature\n", turned = "temperature,load\n";
  for (int i = 0; i != 30; ++i) {
    there += std::to_string(i) + "," + std::to_string(1000 * i) + "\n";
    turned += std::to_string(1000 * i) + "," + std::to_string(i) + "\n";
  }
  write(folder / "there.csv", there);
  write(folder / "turned.csv", turned);
  data::WindowOptions const options{.length = 2, .batch_size = 4};
  auto one = data::windows(folder / "there.csv", options), two = data::windows(folder / "turned.csv", options);
  trained(one, 4, file);
  CHECK(evaluated(one, 4, file) == "nothing was thrown");
  CHECK(evaluated(two, 4, file).find("[fulgurite.data.series_changed]") == 0);
  auto const restored = data_state<data::SeriesInputs>(file);
  CHECK(restored.columns() == std::vector<std::string>{"load", "temperature"});
  CHECK(restored.inputs(folder / "turned.csv").equal(one.inputs(folder / "there.csv")));
  CHECK(restored.in_units(torch::ones({2})).equal(one.in_units(torch::ones({2}))));
}

namespace {

/// A module whose file says of a series of two columns that these are predicted.
struct Claims {
  data::WindowModule& of;
  std::vector<std::int64_t> targets;
  auto& train_dataloader() { return of.train_dataloader(); }
  auto& val_dataloader() { return of.val_dataloader(); }
  void state(auto& archive) {
    std::vector<std::string> columns{"0", "1"};
    std::vector<data::Standardization> standard(2);
    data::TableReading reading;
    archive("columns", columns)("targets", targets)("standard", standard);
    archive.child("reading", reading);
  }
};

}  // namespace

TEST_CASE("a file of a series whose predicted columns are not there is damaged") {
  probe::Folder const folder;
  auto const file = folder / "last.safetensors";
  auto windows = data::windows(torch::arange(60).view({30, 2}), {.length = 2, .batch_size = 4});
  auto const said = [&](std::vector<std::int64_t> targets) {
    Claims claims{windows, std::move(targets)};
    trained(claims, 4, file);
    return sentence([&] { static_cast<void>(data_state<data::SeriesInputs>(file)); });
  };
  CHECK(said({1, 0}) == "nothing was thrown");
  CHECK(said({0, 2}) ==
        "[fulgurite.data.series_changed] the checkpoint has 2 columns of a series and predicts number 2 of them, "
        "counted from 0: it is damaged, so take another one");
  CHECK(said({-1}).find("[fulgurite.data.series_changed]") == 0);
}

TEST_CASE("a file of pictures that were scaled otherwise is refused") {
  probe::Folder const folder;
  auto const file = folder / "last.safetensors", plain_file = folder / "plain.safetensors";
  write(folder / "train-images-idx3-ubyte",
        std::string("\0\0\x08\x03\0\0\0\x04\0\0\0\x1c\0\0\0\x1c", 16) + std::string(4 * 28 * 28, '\x40'));
  write(folder / "train-labels-idx1-ubyte", std::string("\0\0\x08\x01\0\0\0\x04", 8) + std::string("\1\2\3\4"));
  data::MnistOptions options{.validation = 2, .batch_size = 2};
  auto plain = data::mnist(folder.path, options);
  options.normalise = true;
  auto scaled = data::mnist(folder.path, options);
  trained(scaled, 784, file);
  trained(plain, 784, plain_file);
  CHECK(evaluated(scaled, 784, file) == "nothing was thrown");
  CHECK(evaluated(plain, 784, plain_file) == "nothing was thrown");
  CHECK(evaluated(plain, 784, file).find("[fulgurite.data.scale_changed]") == 0);
  CHECK(evaluated(scaled, 784, plain_file).find("[fulgurite.data.scale_changed]") == 0);
  Line other(784);
  CHECK(sentence([&] { load_weights(other, plain_file); }) == "nothing was thrown");
}

TEST_CASE("an evaluation from a file warns where the data module that the file knows is not there, and the reverse") {
  probe::Folder const folder;
  auto const file = folder / "last.safetensors", bare = folder / "bare.safetensors";
  write(folder / "all.csv", houses(0, 50));
  auto all = data::table(folder / "all.csv", {.target = "price", .types = {.categories = {"zip"}}});
  trained(all, 4, file);
  auto const warned = [&](auto& trainer) {
    int times = 0;
    for (auto const& said : trainer.warnings()) times += said.starts_with("[fulgurite.resume.data_state]");
    return times;
  };
  Line model(4);
  auto first = make(), second = make();
  first.validate(model, all, CkptPath{file});
  CHECK(warned(first) == 0);
  first.validate(model, all.val_dataloader(), CkptPath{file});
  CHECK(warned(first) == 1);
  second.fit(model, all.train_dataloader(), all.val_dataloader());
  second.save_checkpoint(bare);
  second.validate(model, all.val_dataloader(), CkptPath{bare});
  CHECK(warned(second) == 0);
  second.validate(model, all, CkptPath{bare});
  CHECK(warned(second) == 1);
}

namespace {

/// Keeps something beside its weights, a number and a tensor.
struct Counting : Line {
  using Line::Line;
  long seen = 0;
  torch::Tensor mean = torch::zeros({2});
  void state(auto& archive) { archive("seen", seen)("mean", mean); }
};
/// The same weights, and another state.
struct Otherwise : Line {
  using Line::Line;
  double other = 0.5;
  void state(auto& archive) { archive("other", other); }
};
struct WithBackbone : torch::nn::Module {
  std::shared_ptr<Counting> backbone = register_module("backbone", std::make_shared<Counting>(2));
  long seen = 0;
  void state(auto& archive) { archive("seen", seen); }
};
using Names = std::vector<std::string>;
Names const both{"seen", "mean"};

/// A file of a run of one, and that one.
Counting counted(std::filesystem::path const& file) {
  Counting model(2);
  model.seen = 7;
  model.mean = torch::tensor({1.F, 2.F});
  second_file(model, file);
  return model;
}
bool same_weights(Line const& a, Line const& b) { return a.layer->weight.equal(b.layer->weight); }

}  // namespace

TEST_CASE("load_weights restores what a model keeps by state(archive), with its weights or not at all") {
  probe::Folder const folder;
  auto const file = folder / "last.safetensors";
  auto model = counted(file);
  Counting other(2), wide(3);
  auto const report = load_weights(other, file);
  CHECK(report.model_state.empty());
  CHECK(other.seen == 7);
  CHECK(other.mean.equal(model.mean));
  CHECK(same_weights(other, model));
  auto const shared = std::make_shared<Counting>(2);
  load_weights(shared, file);
  CHECK(shared->seen == 7);

  CHECK(data_test::refusal([&] { load_weights(wide, file); }) == "fulgurite.checkpoint.weights_mismatch");
  CHECK(wide.seen == 0);
  CHECK(wide.mean.equal(torch::zeros({2})));
  Otherwise another(2);
  CHECK(data_test::refusal([&] { load_weights(another, file); }) == "fulgurite.checkpoint.state_entry");
  CHECK_FALSE(same_weights(another, model));
  WeightOptions const what_fits{.strict = false};
  CHECK(load_weights(another, file, what_fits).model_state == both);
  CHECK(another.other == 0.5);
  CHECK(same_weights(another, model));
  Counting third(2);
  CHECK(load_weights(third, file, what_fits).model_state.empty());
  CHECK(third.seen == 7);
}

TEST_CASE("load_weights refuses or reports a state that only one of model and file has") {
  probe::Folder const folder;
  auto const file = folder / "last.safetensors", bare = folder / "bare.safetensors";
  auto const model = counted(file);
  Line line(2);
  WeightOptions const what_fits{.strict = false};
  CHECK(sentence([&] { load_weights(line, file); }) ==
        "[fulgurite.checkpoint.model_state] " + file.string() +
            " also keeps what its model has saved by state(archive) ('seen', 'mean'), and this model has no "
            "state(archive): load it into a model like the saved one, or what fits with {.strict = false}");
  CHECK_FALSE(same_weights(line, model));
  CHECK(load_weights(line, file, what_fits).model_state == both);
  CHECK(same_weights(line, model));

  second_file(line, bare);
  Counting counting(2);
  CHECK(sentence([&] { load_weights(counting, bare); }) ==
        "[fulgurite.checkpoint.model_state] " + bare.string() +
            " keeps nothing beside the weights of its model, and this one has a state(archive) ('seen', 'mean'): load "
            "it into a model like the saved one, or what fits with {.strict = false}");
  CHECK(load_weights(counting, bare, what_fits).model_state == both);

  // What is no file of a run cannot have a state.
  save_pt(line, folder / "line.pt");
  CHECK(load_weights(counting, folder / "line.pt").model_state == both);
  write_safetensors(folder / "line.safetensors", {}, [&](auto&& f) { libtorch::each_weight(line, f); });
  CHECK(load_weights(counting, folder / "line.safetensors").model_state == both);
  CHECK(load_weights(line, folder / "line.safetensors").model_state.empty());
  CHECK(counting.seen == 0);

  // A part has no state of the whole.
  WithBackbone whole;
  whole.seen = 3;
  libtorch::save(folder / "whole.safetensors", &whole, [&](auto& archive) { archive.child("model", whole); }, {});
  WithBackbone fresh;
  CHECK(load_weights(*fresh.backbone, folder / "whole.safetensors", {.from = "backbone."}).model_state ==
        Names{"seen"});
  CHECK(fresh.backbone->seen == 0);
  CHECK(same_weights(*fresh.backbone, *whole.backbone));
}

TEST_CASE("load_weights restores model and data module together, or neither") {
  probe::Folder const folder;
  auto const file = folder / "last.safetensors";
  write(folder / "all.csv", houses(0, 50));
  write(folder / "new.csv", houses(90, 93));
  auto all = data::table(folder / "all.csv", {.target = "price", .types = {.categories = {"zip"}}});
  Counting model(all.features().size());
  model.seen = 7;
  auto trainer = make<Counting>();
  trainer.fit(model, all);
  trainer.save_checkpoint(file);
  auto restored = data_state<data::TableInputs>(file);
  Counting other(all.features().size()), narrow(1);
  load_weights(other, restored, file);
  CHECK(other.seen == 7);
  data::TableInputs fresh;
  CHECK(data_test::refusal([&] { load_weights(narrow, fresh, file); }) == "fulgurite.checkpoint.weights_mismatch");
  CHECK(narrow.seen == 0);
  CHECK(fresh.features().empty());
  Line line(all.features().size());
  CHECK(data_test::refusal([&] { load_weights(line, fresh, file); }) == "fulgurite.checkpoint.model_state");
  CHECK(fresh.features().empty());
  Counting last(all.features().size());
  CHECK(load_weights(last, file, {.without_data_state = true}).data_state.size() == 5);
  CHECK(last.seen == 7);
}
