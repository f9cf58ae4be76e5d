// Weights as named bytes: a round trip through a file, every way in which a file can fail to fit, and the summary of a
// model.
#include "fixtures.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <tuple>

#include <catch2/matchers/catch_matchers_string.hpp>

#include <fulgurite/checkpoint/safetensors.hpp>
#include <fulgurite/fulgurite.hpp>
#include <fulgurite/report/terminal.hpp>
#include <fulgurite/torch/device/backend.hpp>

namespace {
using fixtures::Net;
using fulgurite::LibTorch;

std::filesystem::path file() {
  return std::filesystem::temp_directory_path() / ("fulgurite_weights_" + std::to_string(::getpid()) + ".safetensors");
}

template <class Model>
void save(Model& model) {
  fulgurite::write_safetensors(file(), {}, [&](auto&& f) { LibTorch::each_weight(model, f); });
}
template <class Model>
void load(Model& model) {
  LibTorch::load_weights(model, fulgurite::SafetensorsFile(file()));
}
template <class Model>
std::string refusal(Model& model) {
  try {
    load(model);
  } catch (fulgurite::Error const& error) {
    CHECK(error.identifier() == "fulgurite.checkpoint.weights_mismatch");
    return error.what();
  }
  return "accepted";
}

struct Wider : torch::nn::Module {
  torch::nn::Linear in = register_module("in", torch::nn::Linear(4, 5));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(3));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(3, 1));
};
struct More : Net {
  torch::Tensor extra = register_parameter("extra", torch::ones({1}));
};
struct AllTypes : torch::nn::Module {
  AllTypes() {
    for (auto type :
         {torch::kDouble, torch::kFloat, torch::kHalf, torch::kBFloat16, torch::kLong, torch::kInt, torch::kShort,
          torch::kChar, torch::kByte, torch::kBool, torch::kUInt16, torch::kUInt32, torch::kUInt64,
          torch::kFloat8_e4m3fn, torch::kFloat8_e5m2, torch::kFloat8_e8m0fnu, torch::kComplexFloat})
      register_buffer(std::string("b") + c10::toString(type), torch::tensor({0, 1, 1}).to(type));
    register_buffer("empty", torch::ones({0, 3}));
    register_buffer("scalar", torch::tensor(2.5F));
    register_buffer("transposed", torch::arange(6.0).reshape({2, 3}).t());
  }
};
}  // namespace

TEST_CASE("weights survive a round trip, bit for bit", "[weights]") {
  torch::manual_seed(1);
  Net saved, loaded;
  saved.forward(torch::randn({8, 4}));  // moves the running statistics
  auto const* where = loaded.in->weight.data_ptr();
  save(saved);
  load(loaded);
  auto const expected = saved.named_parameters(), got = loaded.named_parameters();
  for (auto const& p : expected) CHECK(fixtures::same_bits(p.value(), got[p.key()]));
  for (auto const& b : saved.named_buffers()) CHECK(fixtures::same_bits(b.value(), loaded.named_buffers()[b.key()]));
  CHECK(loaded.in->weight.data_ptr() == where);  // copied into place: optimizers and views stay valid
  CHECK(loaded.in->weight.requires_grad());
}

TEST_CASE("every element type, empty, scalar and strided tensors", "[weights]") {
  AllTypes saved, loaded;
  for (auto& b : loaded.buffers()) b.zero_();
  save(saved);
  load(loaded);
  for (auto const& b : saved.named_buffers()) CHECK(fixtures::same_bits(b.value(), loaded.named_buffers()[b.key()]));
  CHECK_FALSE(loaded.named_buffers()["transposed"].is_contiguous());
}

TEST_CASE("names come dotted, parameters before buffers", "[weights]") {
  Net net;
  std::vector<std::string> names;
  LibTorch::each_weight(net, [&](std::string_view name, fulgurite::WeightView const& view) {
    names.emplace_back(name);
    if (name == "in.weight") {
      CHECK(view.dtype == "F32");
      CHECK(view.shape == std::vector<std::int64_t>{3, 4});
      CHECK(view.bytes.size() == 48);
    }
  });
  CHECK(names == std::vector<std::string>{"in.weight", "in.bias", "norm.weight", "norm.bias", "out.weight", "out.bias",
                                          "norm.running_mean", "norm.running_var", "norm.num_batches_tracked"});
}

TEST_CASE("a file that does not fit names all that differs, and changes nothing", "[weights]") {
  using Catch::Matchers::ContainsSubstring;
  Net net;
  save(net);
  Wider wider;
  auto const before = wider.out->weight.clone();
  CHECK_THAT(refusal(wider),
             ContainsSubstring("different: in.weight (the file has F32 [3, 4], the model F32 [5, 4]), in.bias"));
  CHECK(fixtures::same_bits(wider.out->weight, before));
  More more;
  CHECK_THAT(refusal(more), ContainsSubstring("missing in the file: extra"));
  save(more);
  CHECK_THAT(refusal(net), ContainsSubstring("unknown to the model: extra"));
  save(net);
  Net low;
  low.to(torch::kBFloat16);
  CHECK_THAT(refusal(low), ContainsSubstring("in.weight (the file has F32 [3, 4], the model BF16 [3, 4])"));
  More none;
  none.in->to(torch::kDouble);
  CHECK_THAT(refusal(none), ContainsSubstring("missing in the file: extra; different: in.weight"));
  std::filesystem::remove(file());
}

TEST_CASE("weights of another floating type: the error names what converts them", "[weights]") {
  torch::nn::Linear source(3, 2), target(3, 2);
  target->to(torch::kDouble);
  save(*source);
  using Catch::Matchers::ContainsSubstring;
  CHECK_THAT(refusal(*target), ContainsSubstring("{.convert = true}"));
  auto const load = [&](fulgurite::WeightOptions const& options) {
    return fulgurite::libtorch::load_weights(target.get(), fulgurite::SafetensorsFile(file()), options);
  };
  CHECK(load({.strict = false}).different.size() == 2);
  CHECK(load({.convert = true}).loaded.size() == 2);
  CHECK(torch::equal(target->weight, source->weight.to(torch::kDouble)));
}

TEST_CASE("an element type that a file cannot hold is refused by name", "[weights]") {
  struct Complex : torch::nn::Module {
    torch::Tensor z = register_parameter("z", torch::ones({1}, torch::kComplexDouble));
  } model;
  CHECK_THROWS_WITH(LibTorch::each_weight(model, [](std::string_view, fulgurite::WeightView const&) {}),
                    Catch::Matchers::StartsWith("[fulgurite.checkpoint.element_type] 'z'"));
}

namespace {
/// A graph's edges as a sparse buffer.
struct Graph : torch::nn::Module {
  int steps = 0;
  torch::nn::Linear in = register_module("in", torch::nn::Linear(3, 1));
  torch::Tensor adjacency = register_buffer("adjacency", torch::eye(3).to_sparse());
  torch::Tensor training_step(torch::Tensor const& x) {
    ++steps;
    return in->forward(torch::mm(adjacency, x)).square().mean();
  }
  auto configure_optimizers() { return fulgurite::optim::SGD(*this, {.lr = 0.1}); }
};
}  // namespace

TEST_CASE("a sparse buffer is in a summary, and is refused by name before a training that writes files", "[weights]") {
  using namespace fulgurite;
  Graph graph;
  CHECK(LibTorch::summarize(graph, 1)[0].bytes == 4 * (3 + 1) + 3 * 2 * 8 + 3 * 4);
  for (auto const layout : {torch::kSparseCsr, torch::kSparseCsc}) {
    torch::nn::Module other;
    other.register_buffer("adjacency", torch::eye(3).to_sparse(layout));
    CHECK(LibTorch::summarize(other, 1)[0].bytes == (4 + 3) * 8 + 3 * 4);
  }
  std::vector<torch::Tensor> const batches{torch::ones({3, 3})};
  auto plain = make_trainer<Graph>(TrainerOptions{.max_epochs = 1}, SingleDevice{cpu}, Float32{}, Automatic{},
                                   ModelSummary{}, NoDefaults{});
  plain.fit(graph, batches);
  CHECK(graph.steps == 1);
  auto const refused = Catch::Matchers::StartsWith("[fulgurite.checkpoint.element_type] 'adjacency' is sparse");
  CHECK_THROWS_WITH(plain.save_checkpoint("graph.safetensors"), refused);
  auto writes = make_trainer<Graph>(TrainerOptions{.max_epochs = 1}, SingleDevice{cpu}, Float32{}, Automatic{},
                                    ModelCheckpoint{}, NoDefaults{});
  CHECK_THROWS_WITH(writes.fit(graph, batches), refused);
  CHECK(graph.steps == 1);
  auto tries = make_trainer<Graph>(TrainerOptions{.fast_dev_run = 1}, SingleDevice{cpu}, Float32{}, Automatic{},
                                   ModelCheckpoint{}, NoDefaults{});
  tries.fit(graph, batches);
  CHECK(graph.steps == 2);
}

TEST_CASE("a summary lists the model, then its modules to a depth", "[weights][summary]") {
  struct Model : torch::nn::Module {
    torch::nn::Sequential body =
        register_module("body", torch::nn::Sequential(torch::nn::Linear(4, 2), torch::nn::ReLU()));
    std::shared_ptr<Net> net = register_module("net", std::make_shared<Net>());
  } model;
  for (auto& p : model.net->in->parameters()) p.set_requires_grad(false);
  model.net->norm->eval();
  auto const rows = LibTorch::summarize(model, 2);
  std::vector<std::string> names, types;
  for (auto const& row : rows) {
    names.push_back(row.name);
    types.push_back(row.type);
  }
  CHECK(names == std::vector<std::string>{"", "body", "body.0", "body.1", "net", "net.in", "net.norm", "net.out"});
  CHECK(types ==
        std::vector<std::string>{"Model", "Sequential", "Linear", "ReLU", "Net", "Linear", "BatchNorm1d", "Linear"});
  CHECK(rows[0].parameters == 10 + 15 + 6 + 4);
  CHECK(rows[0].trainable == 10 + 6 + 4);
  CHECK(rows[0].bytes == 4 * 35 + 2 * 12 + 8);
  CHECK(rows[5].trainable == 0);
  CHECK((rows[4].training && !rows[6].training));
  CHECK(LibTorch::summarize(model, 1).size() == 3);
  CHECK(LibTorch::summarize(model, -1).size() == 8);
  CHECK(LibTorch::summarize(model, 0).size() == 1);
  struct NoModule {
    torch::Tensor weight;
  };
  CHECK(LibTorch::summarize(NoModule{}, 2).size() == 1);
}

namespace {
struct Decoder : torch::nn::Module {
  torch::Tensor weight;
  torch::nn::LayerNorm norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({16})));
  explicit Decoder(torch::Tensor const& tied) : weight(register_parameter("weight", tied)) {}
  torch::Tensor forward(torch::Tensor const& x) { return torch::linear(norm->forward(x), weight); }
};
/// A picture and a sentence: tied weights, a recurrent layer, statistics of batches, random numbers, a product of no
/// module, an input that some modules see only inside of others.
struct Shown : torch::nn::Module {
  torch::nn::Sequential seen =
      register_module("seen", torch::nn::Sequential(torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 4, 3).padding(1)),
                                                    torch::nn::ReLU(), torch::nn::MaxPool2d(2), torch::nn::Flatten(),
                                                    torch::nn::BatchNorm1d(16), torch::nn::Dropout(0.5)));
  torch::nn::Sequential flat =
      register_module("flat", torch::nn::Sequential(torch::nn::Flatten(), torch::nn::Linear(16, 3)));
  torch::nn::Embedding words = register_module("words", torch::nn::Embedding(9, 16));
  torch::nn::GRU read = register_module("read", torch::nn::GRU(torch::nn::GRUOptions(16, 16).batch_first(true)));
  std::shared_ptr<Decoder> said = register_module("said", std::make_shared<Decoder>(words->weight));
  /// A module of one's own that says its sizes.
  struct Pair : torch::nn::Module {
    torch::nn::Linear inner = register_module("inner", torch::nn::Linear(9, 2));
    torch::Tensor forward(torch::Tensor const& a, torch::Tensor const& b) {
      return fulgurite::tell_sizes(*this, inner->forward(a + b).unsqueeze(0), a, b);
    }
  };
  std::shared_ptr<Pair> pair = register_module("pair", std::make_shared<Pair>());
  torch::Tensor calls = register_buffer("calls", torch::zeros({}));
  bool fails = false;
  std::tuple<torch::Tensor, torch::Tensor> example_input_array() const {
    return {torch::ones({2, 1, 4, 4}), torch::ones({2, 5}, torch::kLong)};
  }
  torch::Tensor forward(torch::Tensor const& picture, torch::Tensor const& sentence) {
    if (fails) throw std::runtime_error("it does not fit");
    calls += flat->forward(picture).sum();
    auto const a = seen->forward(picture) + torch::rand({2, 16});
    auto const b = std::get<0>(read->forward(words->forward(sentence)));
    auto const words_said = said->forward(torch::bmm(torch::bmm(b, b.transpose(1, 2)), b).sum(1) + a);
    pair->forward(words_said, words_said);
    return words_said;
  }
};
}  // namespace

TEST_CASE("a summary with an example has sizes and operations, and leaves no trace", "[weights][summary]") {
  torch::manual_seed(3);
  Shown model;
  model.seen[4]->eval();
  model.read->eval();
  for (auto& p : model.read->parameters()) p.set_requires_grad(false);
  auto const before = [&] {
    std::vector<torch::Tensor> all;
    for (auto const& p : model.parameters()) all.push_back(p.clone());
    for (auto const& b : model.buffers()) all.push_back(b.clone());
    return all;
  }();
  auto const random = at::detail::getDefaultCPUGenerator().get_state().clone();
  auto rows = LibTorch::summarize(model, -1);
  LibTorch::run_example(model, rows);

  std::map<std::string, fulgurite::report::ModelRow> found;
  for (auto const& row : rows) found[row.name] = row;
  auto const sizes = [&](char const* name) { return found.at(name).in + " to " + found.at(name).out; };
  CHECK(sizes("") == "[2, 1, 4, 4], [2, 5] to [2, 9]");
  CHECK(sizes("seen") == "[2, 1, 4, 4] to [2, 16]");
  CHECK(sizes("seen.0") == "[2, 1, 4, 4] to [2, 4, 4, 4]");
  CHECK(sizes("seen.1") == "[2, 4, 4, 4] to [2, 4, 4, 4]");
  CHECK(sizes("seen.2") == "[2, 4, 4, 4] to [2, 4, 2, 2]");
  CHECK(sizes("seen.3") == "[2, 4, 2, 2] to [2, 16]");
  CHECK(sizes("seen.5") == "[2, 16] to [2, 16]");
  CHECK(sizes("flat") == "[2, 1, 4, 4] to [2, 3]");
  CHECK(sizes("flat.0") == "[2, 1, 4, 4] to [2, 16]");
  CHECK(sizes("words") == "[2, 5] to [2, 5, 16]");
  CHECK(sizes("read") == "[2, 5, 16] to [2, 5, 16]");
  CHECK(sizes("said") == " to ");  // a module of one's own: unknown, unless it says so
  CHECK(sizes("pair") == "[2, 9], [2, 9] to [1, 2, 2]");
  CHECK(sizes("pair.inner") == "[2, 9] to [2, 2]");
  std::int64_t const conv = 2 * (2 * 4 * 16) * 9, gru = 2 * (2 * 5) * (2 * 3 * 16 * 16), said = 2 * 2 * 16 * 9,
                     flat = 2 * 2 * 16 * 3, pair = 2 * 2 * 9 * 2, products = 2 * (2 * 2 * 5 * 5 * 16);
  CHECK(found.at("seen").flops == conv);
  CHECK(found.at("seen.0").flops == conv);
  CHECK(found.at("read").flops == gru);
  CHECK(found.at("words").flops == 0);
  CHECK(found.at("said").flops == said);
  CHECK(found.at("").flops == conv + gru + said + flat + pair + products);
  CHECK(found.at("said").shared == 9 * 16);
  CHECK(found.at("said").shared_with == "words");
  CHECK(found.at("words").shared == 0);
  CHECK(found.at("").parameters == 40 + 32 + 51 + 20 + 9 * 16 + 2 * 3 * 16 * 16 + 2 * 3 * 16 + 32);

  std::size_t i = 0;
  for (auto const& p : model.parameters()) CHECK(p.equal(before[i++]));
  for (auto const& b : model.buffers()) CHECK(b.equal(before[i++]));
  CHECK(at::detail::getDefaultCPUGenerator().get_state().equal(random));
  CHECK(model.is_training());
  CHECK(model.seen->is_training());
  CHECK_FALSE(model.seen[4]->is_training());
  CHECK_FALSE(model.read->is_training());
  CHECK(torch::GradMode::is_enabled());

  model.fails = true;
  CHECK_THROWS_WITH(LibTorch::run_example(model, rows),
                    Catch::Matchers::StartsWith("[fulgurite.model.example_input] forward failed with the model's "
                                                "example_input_array of [2, 1, 4, 4], [2, 5]: it does not fit"));
  CHECK(model.is_training());
  CHECK(at::detail::getDefaultCPUGenerator().get_state().equal(random));
}
