// Models leave as TorchScript files: with their names, for any size of batch, with the bits of the model; what cannot
// leave so is refused and the old file stays. Such files come back as models that are trained.
#include "fixtures.hpp"
#include "unit/checkpoint_folder.hpp"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <catch2/matchers/catch_matchers_string.hpp>
#include <torch/script.h>

#include <fulgurite/fulgurite.hpp>
#include <fulgurite/torch/export/torchscript.hpp>

namespace {
namespace nn = torch::nn;
using namespace fulgurite;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using fixtures::same_bits;
using probe::error_of;
using probe::Folder;
using torch::Tensor;
using Names = std::vector<std::string>;

/// Names that Python or TorchScript do not allow, a buffer, layers that eval mode changes, and a size that is taken
/// from the batch.
struct Pictures : nn::Module {
  nn::Conv2d in = register_module("in", nn::Conv2d(1, 4, 3));
  nn::BatchNorm2d norm = register_module("norm", nn::BatchNorm2d(4));
  Tensor shift = register_buffer("training", torch::ones({1}));
  nn::Dropout dropout = register_module("dropout", nn::Dropout(0.5));
  Chain<Linear<4 * 36, 10>, ReLU> body{*this, "body"};
  nn::Sequential head = register_module("head", nn::Sequential(nn::Linear(10, 8), nn::ReLU(), nn::Linear(8, 3)));
  Tensor forward(Tensor const& x) {
    auto const seen = torch::relu(norm(in(x)) + shift);
    return head->forward(checkpointed(body, dropout(seen.view({seen.size(0), -1}))));
  }
};

/// Recurrent layers start from zeros for each row, which LibTorch makes of the batch's size.
struct Sequences : nn::Module {
  nn::LSTM layer = register_module("layer", nn::LSTM(nn::LSTMOptions(5, 6).batch_first(true)));
  std::tuple<Tensor, std::tuple<Tensor, Tensor>> forward(Tensor const& x, Tensor const& mask) {
    auto [y, state] = layer(x);
    return {y * mask.unsqueeze(-1), state};
  }
};

/// A module and a parameter under two names each, and a tensor that is no part of the state.
struct Tied : nn::Module {
  nn::Linear one = register_module("one", nn::Linear(3, 3)), two = register_module("two", one);
  Tensor plain = torch::full({3}, 0.5);
  std::vector<Tensor> forward(Tensor const& x) { return {one(x), two(x) + plain}; }
};

/// A number that equals nothing, and an input whose length is not that of the batch.
struct Masked : nn::Module {
  Tensor forward(Tensor const& x, Tensor const& weight) {
    return (x.masked_fill(x > 0, std::nan("")) * weight).reshape({-1});
  }
};

struct Attending : nn::Module {
  nn::TransformerEncoderLayer layer =
      register_module("layer", nn::TransformerEncoderLayer(nn::TransformerEncoderLayerOptions(8, 2)));
  Tensor forward(Tensor const& x) { return layer(x); }
};

struct Small : nn::Module {
  static constexpr Metric<"loss"> loss{};
  using Metrics = MetricList<loss>;
  nn::Linear first = register_module("first", nn::Linear(4, 8)), last = register_module("last", nn::Linear(8, 1));
  std::vector<float> losses = {};
  Tensor forward(Tensor const& x) { return last(torch::tanh(first(x))); }
  Tensor training_step(auto const& batch, auto& ctx) {
    auto const value = torch::mse_loss(forward(batch.data), batch.target);
    losses.push_back(value.template item<float>());
    ctx.log(loss, value);
    return value;
  }
  auto configure_optimizers() { return optim::AdamW(*this, {.lr = 0.01}); }
  using Stateless = ByChoice;
};
/// The same training of a file.
struct FromFile : Scripted {
  using Scripted::Scripted;
  std::vector<float> losses = {};
  Tensor training_step(auto const& batch) {
    auto const value = torch::mse_loss(forward(batch.data), batch.target);
    losses.push_back(value.template item<float>());
    return value;
  }
  auto configure_optimizers() { return optim::AdamW(*this, {.lr = 0.01}); }
  using Stateless = ByChoice;
};

auto rows() {
  torch::manual_seed(11);
  return data::TensorLoader{torch::randn({24, 4}), torch::randn({24, 1}), {.batch_size = 8}};
}
auto trainer_of(auto const& model, int epochs, auto... callbacks) {
  return make_trainer<std::remove_cvref_t<decltype(model)>>(TrainerOptions{.max_epochs = epochs}, SingleDevice{cpu},
                                                            Float32{}, Automatic{}, callbacks..., NoDefaults{});
}

/// A data module with a state.
struct Scaled {
  double mean = 3;
  decltype(rows()) batches = rows();
  auto& train_dataloader() { return batches; }
  void state(auto& archive) { archive("mean", mean); }
};

template <class Net, class... Inputs>
auto result(Net& net, Inputs const&... inputs) {
  torch::NoGradGuard const no_graph;
  net.eval();
  return net.forward(inputs...);
}
Tensor loaded(std::filesystem::path const& file, Tensor const& x) {
  torch::NoGradGuard const no_graph;
  return torch::jit::load(file.string()).forward({x}).toTensor();
}
template <class Item>
Names names(Item const& list) {
  Names all;
  for (auto const& each : list) all.push_back(each.name);
  return all;
}

}  // namespace

TEST_CASE("a model leaves with its names, and its file gives its bits for batches of any size", "[export]") {
  Folder const folder;
  Pictures net;
  net.forward(torch::randn({6, 1, 8, 8}));  // the running statistics are no longer those of the start
  net.head->eval();
  net.in->weight.set_requires_grad(false);
  auto const weights = fixtures::copied_weights(net);
  torch::manual_seed(7);
  auto const drawn = torch::rand(1);
  torch::manual_seed(7);
  export_torchscript(net, torch::ones({4, 1, 8, 8}), folder / "net.pt");

  CHECK(same_bits(torch::rand(1), drawn));
  CHECK((net.is_training() && net.norm->is_training() && !net.head->is_training()));
  auto const after = fixtures::copied_weights(net);
  for (std::size_t i = 0; i != weights.size(); ++i) CHECK(same_bits(weights[i], after[i]));

  auto file = torch::jit::load((folder / "net.pt").string());
  CHECK(names(file.named_parameters()) == Names{"in_.weight", "in_.bias", "norm.weight", "norm.bias", "body.0.weight",
                                                "body.0.bias", "head.0.weight", "head.0.bias", "head.2.weight",
                                                "head.2.bias"});
  CHECK(names(file.named_buffers()) ==
        Names{"training_", "norm.running_mean", "norm.running_var", "norm.num_batches_tracked"});
  for (auto const& each : file.named_parameters()) CHECK(each.value.requires_grad() == (each.name != "in_.weight"));
  for (int size : {1, 3, 4, 17}) {
    auto const x = torch::randn({size, 1, 8, 8});
    CHECK(same_bits(loaded(folder / "net.pt", x), result(net, x)));
  }

  // So wide that LibTorch's optimizer of TorchScript would make other bits of an addmm.
  nn::Sequential wide(nn::Linear(784, 10), nn::ReLU(), nn::Linear(10, 3));
  export_torchscript(wide, torch::zeros({2, 784}), folder / "wide.pt");
  auto const many = torch::randn({64, 784});
  CHECK(same_bits(loaded(folder / "wide.pt", many), result(*wide, many)));
}

TEST_CASE("a file has several inputs and results as the model has", "[export]") {
  Folder const folder;
  Sequences net;
  export_torchscript(net, std::tuple{torch::randn({2, 7, 5}), torch::ones({2, 7})}, folder / "net.pt");
  auto const x = torch::randn({5, 7, 5}), mask = torch::rand({5, 7});
  auto const [y, state] = result(net, x, mask);
  auto const all = torch::jit::load((folder / "net.pt").string()).forward({x, mask}).toTuple();
  CHECK(same_bits(all->elements()[0].toTensor(), y));
  CHECK(same_bits(all->elements()[1].toTuple()->elements()[1].toTensor(), std::get<1>(state)));

  Masked masked;
  auto const weight = torch::randn({3});
  export_torchscript(masked, std::tuple{torch::randn({2, 3}), weight}, folder / "masked.pt");
  auto const rows = torch::randn({4, 3});
  CHECK(same_bits(torch::jit::load((folder / "masked.pt").string()).forward({rows, weight}).toTensor(),
                  result(masked, rows, weight)));
  CHECK_THAT(
      error_of([&] { export_torchscript(masked, std::tuple{torch::randn({3, 3}), weight}, folder / "masked.pt"); }),
      StartsWith("[fulgurite.export.batch]") && ContainsSubstring("a size that no other input has"));

  Tied tied;
  export_torchscript(tied, torch::randn({2, 3}), folder / "tied.pt");
  auto file = torch::jit::load((folder / "tied.pt").string());
  CHECK(names(file.named_parameters()) == Names{"one.weight", "one.bias", "two.weight", "two.bias"});
  CHECK(file.attr("one").toModule()._ivalue() == file.attr("two").toModule()._ivalue());
  CHECK(file.forward({torch::zeros({9, 3})}).toTensorVector().size() == 2);
}

TEST_CASE("modules of LibTorch leave through their holders, with batches in any dimension", "[export]") {
  Folder const folder;
  nn::Linear holder(3, 2);
  export_torchscript(holder, torch::zeros({1, 3}), folder / "linear.pt");
  auto const x = torch::randn({4, 3});
  CHECK(same_bits(loaded(folder / "linear.pt", x), result(*holder, x)));

  auto const net = std::make_shared<Attending>();
  export_torchscript(net, torch::randn({5, 2, 8}), folder / "attending.pt", {.batch_dim = 1});
  auto const several = torch::randn({5, 7, 8});
  CHECK(same_bits(loaded(folder / "attending.pt", several), result(*net, several)));
}

namespace {
struct Unregistered : nn::Module {
  nn::Linear layer{3, 3};
  Tensor forward(Tensor const& x) { return layer(x); }
};
struct Mean : nn::Module {
  nn::Linear fc = register_module("fc", nn::Linear(3, 3));
  Tensor forward(Tensor const& x) { return fc(x).sum(0, true) * (1.0 / static_cast<double>(x.size(0))); }
};
struct Branch : nn::Module {
  nn::Linear fc = register_module("fc", nn::Linear(3, 3));
  Tensor forward(Tensor const& x) { return x.size(0) > 5 ? fc(x).relu() : fc(x); }
};
struct Capped : nn::Module {
  Tensor forward(Tensor const& x) { return x.narrow(0, 0, std::min<std::int64_t>(x.size(0), 3)); }
};
struct Fixed : nn::Module {
  Tensor forward(Tensor const& x) { return x.view({4, 3}).relu(); }
};
struct Reading : nn::Module {
  Tensor forward(Tensor const& x) { return x.max().item<float>() > 0 ? x : -x; }
};
struct Named : nn::Module {
  nn::Linear layer = register_module("two \"words\"", nn::Linear(3, 3));
  Tensor forward(Tensor const& x) { return layer(x); }
};
struct InPlace : nn::Module {
  Tensor forward(Tensor const& x) { return x.add_(1).masked_fill(x > 2, std::nan("")); }
};
struct Random : nn::Module {
  Tensor forward(Tensor const& x) { return torch::dropout(x, 0.5, true); }
};
}  // namespace

TEST_CASE("what a file would not do as the model does is refused, and the old file stays", "[export]") {
  Folder const folder;
  auto const file = folder / "net.pt";
  std::ofstream(file) << "old";
  auto const said = [&](auto&& net, Tensor const& x, ExportOptions const& options = {}) {
    return error_of([&] { export_torchscript(net, x, file, options); });
  };
  auto const x = torch::randn({4, 3});
  CHECK_THAT(said(Unregistered{}, x), StartsWith("[fulgurite.export.trace]") && ContainsSubstring("register_module"));
  CHECK_THAT(said(Mean{}, x), StartsWith("[fulgurite.export.batch]") &&
                                  ContainsSubstring("aten::mul (after `fc.weight` was read) has 0.25 for a batch of 4 "
                                                    "and 0.125 for one of 8"));
  CHECK_THAT(said(Branch{}, x), StartsWith("[fulgurite.export.batch]") && ContainsSubstring("aten::relu"));
  CHECK_THAT(said(Capped{}, x), StartsWith("[fulgurite.export.batch]") && ContainsSubstring("inputs of [1, 3]"));
  CHECK_THAT(said(Fixed{}, x), StartsWith("[fulgurite.export.batch]") && ContainsSubstring("fails for [8, 3]"));
  CHECK_THAT(said(Reading{}, x), StartsWith("[fulgurite.export.host_number]") && ContainsSubstring("aten::item"));
  CHECK_THAT(said(Named{}, x), StartsWith("[fulgurite.export.file]"));
  auto const before = x.clone();
  CHECK_THAT(said(InPlace{}, x), StartsWith("[fulgurite.export.random]"));
  CHECK(torch::equal(x, before));
  CHECK_THAT(said(Random{}, x), StartsWith("[fulgurite.export.random]"));
  CHECK_THAT(said(nn::Linear(5, 2), x), StartsWith("[fulgurite.export.input]") && ContainsSubstring("[4, 3]"));
  CHECK_THAT(said(nn::Linear(3, 2), Tensor()), StartsWith("[fulgurite.export.input]"));
  CHECK_THAT(said(nn::Linear(3, 2), torch::zeros({0, 3})), StartsWith("[fulgurite.export.input]"));
  std::string text;
  std::getline(std::ifstream(file), text);
  CHECK(text == "old");

  for (auto const& each : std::filesystem::directory_iterator(folder.path)) CHECK(each.path() == file);
  CHECK(said(Mean{}, x, {.batch_dim = std::nullopt}).empty());
  CHECK(said(Fixed{}, x, {.batch_dim = std::nullopt}).empty());
}

TEST_CASE("a trained model leaves without its arena; an average and the best checkpoint leave, too", "[export]") {
  Folder const folder;
  auto loader = rows();
  Small net;
  auto trainer = trainer_of(net, 3, ModelCheckpoint{Small::loss, {.dirpath = folder.path, .mode = Mode::max}});
  trainer.fit(net, loader);
  auto const x = torch::randn({5, 4});
  export_torchscript(net, x, folder / "last.pt");
  CHECK(same_bits(loaded(folder / "last.pt", x), result(net, x)));
  // What is written of each tensor is its storage, and an arena is one of all parameters.
  for (auto const& each : torch::jit::load((folder / "last.pt").string()).named_parameters())
    CHECK(each.value.storage().nbytes() == each.value.nbytes());

  auto const last = result(net, x);
  auto const best = trainer.callback<ModelCheckpoint<std::remove_const_t<decltype(Small::loss)>>>().best_model_path();
  export_torchscript_from(best, net, x, folder / "best.pt");
  CHECK_FALSE(same_bits(result(net, x), last));
  Small other;
  load_weights(other, best);
  CHECK(same_bits(loaded(folder / "best.pt", x), result(other, x)));

  Scaled data;
  auto of_module = trainer_of(net, 1);
  of_module.fit(net, data);
  of_module.save_checkpoint(folder / "scaled.safetensors");
  data.mean = 0;
  CHECK_THAT(error_of([&] { export_torchscript_from(folder / "scaled.safetensors", net, x, folder / "scaled.pt"); }),
             StartsWith("[fulgurite.checkpoint.data_state]"));
  export_torchscript_from(folder / "scaled.safetensors", net, data, x, folder / "scaled.pt");
  CHECK(data.mean == 3);
  CHECK(same_bits(loaded(folder / "scaled.pt", x), result(net, x)));

  Small averaged;
  auto averaging = trainer_of(averaged, 3, WeightAveraging{});
  averaging.fit(averaged, loader);
  averaging.save_checkpoint(folder / "averaged.safetensors");
  export_torchscript(averaged, x, folder / "averaged.pt");
  load_weights(other, folder / "averaged.safetensors");
  CHECK(same_bits(loaded(folder / "averaged.pt", x), result(other, x)));
}

TEST_CASE("a file is trained as the model was that it was made of, bit for bit", "[export][scripted]") {
  Folder const folder;
  auto loader = rows();
  Small net;
  export_torchscript(net, torch::zeros({1, 4}), folder / "start.pt");
  FromFile file(folder / "start.pt");
  auto of_net = trainer_of(net, 3);
  of_net.fit(net, loader);
  loader = rows();
  auto of_file = trainer_of(file, 3);
  of_file.fit(file, loader);
  REQUIRE(net.losses.size() == 9);
  CHECK(net.losses == file.losses);
  CHECK(net.losses.front() > net.losses.back());
  CHECK(libtorch::weight_names(&file) == libtorch::weight_names(&net));
  auto const x = torch::randn({5, 4});
  CHECK(same_bits(result(file, x), result(net, x)));

  // A checkpoint has the same names, so that either reads the other's.
  of_file.save_checkpoint(folder / "trained.safetensors");
  FromFile again(folder / "start.pt");
  CHECK_FALSE(same_bits(result(again, x), result(net, x)));
  load_weights(again, folder / "trained.safetensors");
  CHECK(same_bits(result(again, x), result(net, x)));
  Small back;
  load_weights(back, folder / "trained.safetensors");
  CHECK(same_bits(result(back, x), result(net, x)));

  // It leaves again, by the same function.
  export_torchscript(file, x, folder / "second.pt");
  CHECK(same_bits(loaded(folder / "second.pt", x), result(net, x)));
}

TEST_CASE("a file is a part of a model: frozen by parts, converted, in either mode", "[export][scripted]") {
  Folder const folder;
  torch::jit::Module written("Switched");
  written.register_attribute("training", c10::BoolType::get(), true);
  written.register_parameter("scale", torch::full({3}, 2.0F), false);
  written.define("def forward(self, x):\n  return x * self.scale if self.training else x\n"
                 "def both(self, x):\n  return x, x * self.scale\n");
  written.save((folder / "switched.pt").string());

  struct Whole : nn::Module {
    std::shared_ptr<Scripted> body;
    nn::Linear head = register_module("head", nn::Linear(3, 1));
    explicit Whole(std::filesystem::path const& file)
        : body(register_module("body", std::make_shared<Scripted>(file))) {}
    Tensor forward(Tensor const& x) { return head(body->forward(x)); }
  } whole(folder / "switched.pt");
  auto const x = torch::ones({2, 3});
  CHECK(torch::equal(whole.body->forward(x), 2 * x));
  whole.eval();
  CHECK(torch::equal(whole.body->forward(x), x));
  CHECK(whole.body->call({x}, "both").toTuple()->elements().size() == 2);
  CHECK(libtorch::weight_names(&whole) == Names{"body.scale", "head.weight", "head.bias"});

  whole.train();
  freeze(*whole.body);
  whole.forward(x).sum().backward();
  CHECK_FALSE(whole.body->parameters()[0].grad().defined());
  make_trainable(*whole.body);
  whole.forward(x).sum().backward();
  CHECK(whole.body->parameters()[0].grad().defined());
  whole.to(torch::kDouble);
  CHECK(whole.forward(x.to(torch::kDouble)).scalar_type() == torch::kDouble);

  Tied tied;
  export_torchscript(tied, torch::randn({2, 3}), folder / "tied.pt");
  Scripted file(folder / "tied.pt");
  struct Script : torch::jit::Module {};
  STATIC_REQUIRE(LibTorch::is_script<Script>);
  STATIC_REQUIRE_FALSE(LibTorch::is_script<FromFile>);
  CHECK(file.named_children()["one"] == file.named_children()["two"]);
  CHECK(libtorch::named_parameters(file).size() == 2);
  CHECK_THAT(error_of([&] { file.forward(torch::zeros({1, 3})); }), StartsWith("[fulgurite.scripted.result]"));
  CHECK_THAT(error_of([&] { Scripted(folder / "none.pt"); }),
             StartsWith("[fulgurite.scripted.file]") && ContainsSubstring("none.pt"));
}

TEST_CASE("Python loads the file: names, bits and modes; ONNX by the two lines of docs/export.md", "[export][python]") {
  auto const* const given = std::getenv("FULGURITE_PYTHON");
  std::string const python = given != nullptr ? given : "python3";
  if (std::system((python + " -c 'import torch' >/dev/null 2>&1").c_str()) != 0)
    SKIP(python << " cannot import torch: name one that can in FULGURITE_PYTHON");
  Folder const folder;
  Small net;
  auto const x = torch::randn({5, 4});
  export_torchscript(net, torch::zeros({2, 4}), folder / "net.pt");
  save_pt(net, folder / "weights.pt");
  torch::jit::Module both("Both");
  both.register_buffer("x", x);
  both.register_buffer("y", result(net, x));
  both.save((folder / "both.pt").string());
  std::ofstream(folder / "read.py") << R"(
import sys
import torch
folder = sys.argv[1]
model = torch.jit.load(folder + '/net.pt')
both = torch.jit.load(folder + '/both.pt')
weights = torch.load(folder + '/weights.pt')
assert not model.training and model.original_name == 'Small'
assert list(model.state_dict()) == list(weights)
assert all(torch.equal(model.state_dict()[name], weights[name]) for name in weights)
model.train(), model.eval()
assert torch.equal(model(both.x), both.y)
try:
    import onnx, onnxruntime
except ImportError:
    print('no onnx')
    sys.exit(3)
torch.onnx.export(model, (torch.zeros(1, 4),), folder + '/net.onnx', dynamo=False,
                  input_names=['x'], dynamic_axes={'x': {0: 'batch'}})
onnx.checker.check_model(onnx.load(folder + '/net.onnx'))
y = onnxruntime.InferenceSession(folder + '/net.onnx').run(None, {'x': both.x.numpy()})[0]
assert torch.allclose(torch.tensor(y), both.y, atol=1e-6)
)";
  auto const run = python + " " + (folder / "read.py").string() + " " + folder.path.string();
  auto const code = WEXITSTATUS(std::system(run.c_str()));
  if (code == 3) SKIP("TorchScript was read; " << python << " has no onnx and onnxruntime for the rest");
  CHECK(code == 0);
}
