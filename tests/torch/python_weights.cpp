// Weights from Python and to Python: files of torch.save and of Lightning are loaded, as a whole, in part and under
// other names; what save_pt writes is read by torch.load, where there is a Python with torch.
#include "fixtures.hpp"
#include "unit/checkpoint_folder.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <catch2/matchers/catch_matchers_string.hpp>

#include <fulgurite/checkpoint/safetensors.hpp>
#include <fulgurite/torch/weights/checkpoint_file.hpp>

namespace {
using Catch::Matchers::ContainsSubstring;
using fixtures::Net;
using fixtures::same_bits;
using probe::Folder;
using Names = std::vector<std::string>;

/// A network with a part that other networks have, too.
struct WithHead : torch::nn::Module {
  std::shared_ptr<Net> backbone = register_module("backbone", std::make_shared<Net>());
  torch::nn::Linear head = register_module("head", torch::nn::Linear(1, 2));
};
/// A network inside a module of Lightning: its names begin with "model.".
struct Wrapped : torch::nn::Module {
  std::shared_ptr<Net> model = register_module("model", std::make_shared<Net>());
};
struct Wider : torch::nn::Module {
  torch::nn::Linear in = register_module("in", torch::nn::Linear(4, 5));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(3));
  torch::nn::Linear other = register_module("other", torch::nn::Linear(3, 1));
};

bool equal(torch::nn::Module const& a, torch::nn::Module const& b) {
  auto const left = a.named_parameters(), right = b.named_parameters();
  for (auto const& p : left)
    if (!same_bits(p.value(), right[p.key()])) return false;
  auto const one = a.named_buffers(), two = b.named_buffers();
  for (auto const& p : one)
    if (!same_bits(p.value(), two[p.key()])) return false;
  return left.size() == right.size() && one.size() == two.size();
}
template <class F>
std::string refusal(F&& load) {
  try {
    load();
  } catch (fulgurite::Error const& error) { return error.what(); }
  return "accepted";
}
}  // namespace

TEST_CASE("weights go through a .pt file, bit for bit", "[weights][python]") {
  Folder const folder;
  Net saved, loaded;
  saved.forward(torch::randn({8, 4}));
  fulgurite::save_pt(saved, folder / "a.pt");
  auto const report = fulgurite::load_weights(loaded, folder / "a.pt");
  CHECK(equal(saved, loaded));
  CHECK(report.loaded == Names{"in.weight", "in.bias", "norm.weight", "norm.bias", "out.weight", "out.bias",
                               "norm.running_mean", "norm.running_var", "norm.num_batches_tracked"});
  CHECK((report.missing.empty() && report.unexpected.empty() && report.different.empty()));
}

TEST_CASE("with strict off what fits is loaded, and the rest is named", "[weights][python]") {
  Folder const folder;
  Net saved;
  Wider wider;
  auto const before = wider.in->weight.clone();
  for (auto const* name : {"a.pt", "a.safetensors"}) {
    torch::nn::init::constant_(wider.norm->weight, 7);
    if (name[2] == 'p') fulgurite::save_pt(saved, folder / name);
    else fulgurite::write_safetensors(folder / name, {}, [&](auto&& f) { fulgurite::libtorch::each_weight(saved, f); });
    auto const said = refusal([&] { fulgurite::load_weights(wider, folder / name); });
    CHECK_THAT(said, ContainsSubstring("missing in the file: other.weight, other.bias; unknown to the model: out.bias, "
                                       "out.weight; different: in.weight (the file has F32 [3, 4], the model F32 [5, 4"
                                       "]), in.bias"));
    CHECK(wider.norm->weight[0].item<float>() == 7);  // nothing was changed
    auto const report = fulgurite::load_weights(wider, folder / name, {.strict = false});
    CHECK(report.missing == Names{"other.weight", "other.bias"});
    CHECK(report.unexpected == Names{"out.bias", "out.weight"});
    CHECK(report.different == Names{"in.weight", "in.bias"});
    CHECK(report.loaded ==
          Names{"norm.weight", "norm.bias", "norm.running_mean", "norm.running_var", "norm.num_batches_tracked"});
    CHECK(same_bits(wider.norm->weight, saved.norm->weight));
    CHECK(same_bits(wider.in->weight, before));
  }
}

TEST_CASE("prefixes of names are taken off, and the error says which", "[weights][python]") {
  Folder const folder;
  Wrapped saved;
  Net loaded;
  fulgurite::save_pt(saved, folder / "a.ckpt");
  CHECK_THAT(refusal([&] { fulgurite::load_weights(loaded, folder / "a.ckpt"); }),
             ContainsSubstring("All names begin with 'model.': say {.remove_prefix = {\"model.\"}}"));
  auto const report = fulgurite::load_weights(loaded, folder / "a.ckpt", {.remove_prefix = {"module.", "model."}});
  CHECK(report.loaded.size() == 9);
  CHECK(equal(*saved.model, loaded));
  // Each prefix is taken off once, in any order.
  using fulgurite::libtorch::mapped_name;
  CHECK(mapped_name("module._orig_mod.model.w", {.remove_prefix = {"model.", "_orig_mod.", "module."}}).name == "w");
  CHECK(mapped_name("model.model.w", {.remove_prefix = {"model."}}).name == "model.w");
  // Two names that become one are refused.
  struct Twice : torch::nn::Module {
    torch::Tensor plain = register_parameter("w", torch::ones({1}));
    std::shared_ptr<torch::nn::Module> model = register_module("model", std::make_shared<torch::nn::Module>());
    torch::Tensor inner = model->register_parameter("w", torch::ones({1}));
  } twice;
  fulgurite::save_pt(twice, folder / "twice.pt");
  CHECK_THAT(
      refusal([&] {
        static_cast<void>(fulgurite::load_weights(twice, folder / "twice.pt", {.remove_prefix = {"model."}}));
      }),
      ContainsSubstring("[fulgurite.checkpoint.weight_names] without their prefixes 'w' and 'model.w' are both"));
}

TEST_CASE("a part of a model takes its part of a file", "[weights][python]") {
  Folder const folder;
  WithHead saved, loaded;
  Net net;
  fulgurite::save_pt(saved, folder / "all.pt");
  auto const head = loaded.head->weight.clone();
  auto const report = fulgurite::load_weights(*loaded.backbone, folder / "all.pt", {.from = "backbone."});
  CHECK(report.loaded.size() == 9);
  CHECK(report.unexpected.empty());
  CHECK(equal(*saved.backbone, *loaded.backbone));
  CHECK(same_bits(loaded.head->weight, head));
  // A holder is a module, too.
  CHECK(fulgurite::load_weights(loaded.head, folder / "all.pt", {.from = "head."}).missing.empty());
  CHECK(same_bits(loaded.head->weight, saved.head->weight));
  fulgurite::save_pt(net, folder / "net.pt");  // and a file of the part goes into the part
  fulgurite::load_weights(loaded.backbone, folder / "net.pt");
  CHECK(equal(net, *loaded.backbone));
}

TEST_CASE("a file of which no name fits is an Error that names the prefix or the part that does, also where a load is "
          "not strict",
          "[weights][python]") {
  Folder const folder;
  WithHead whole;
  Net net;
  fulgurite::save_pt(whole, folder / "whole.pt");
  fulgurite::save_pt(net, folder / "net.pt");
  auto const said = [&](auto& model, char const* file, fulgurite::WeightOptions const& options) {
    return refusal([&] { static_cast<void>(fulgurite::load_weights(model, folder / file, options)); });
  };
  using Catch::Matchers::StartsWith;
  for (bool const strict : {false, true}) {
    // A whole model's file for a part of it.
    CHECK_THAT(said(net, "whole.pt", {.strict = strict}),
               ContainsSubstring("Those that begin with 'backbone.' fit: say {.from = \"backbone.\"}"));
    // A misspelt part.
    CHECK_THAT(said(net, "whole.pt", {.strict = strict, .from = "bakbone."}),
               ContainsSubstring("Those that begin with 'backbone.' fit: say {.from = \"backbone.\"}"));
    // A part's file for the whole model.
    CHECK_THAT(said(whole, "net.pt", {.strict = strict}),
               ContainsSubstring("They fit the part 'backbone' of the model: load them into that part"));
  }
  CHECK_THAT(
      said(net, "whole.pt", {.strict = false, .from = "bakbone."}),
      StartsWith("[fulgurite.checkpoint.no_weight_fits] no name in the file begins with .from = \"bakbone.\", so "
                 "nothing would be loaded"));
  CHECK_THAT(said(net, "whole.pt", {.strict = false, .remove_prefix = {"bakbone."}}),
             StartsWith("[fulgurite.checkpoint.no_weight_fits] no name in the file is one of the model's"));
  // Names fit, and shapes do not: that is what the report says.
  struct Wide : torch::nn::Module {
    torch::nn::Linear in = register_module("in", torch::nn::Linear(30, 40));
  } wide;
  auto const report = fulgurite::load_weights(wide, folder / "net.pt", {.strict = false});
  CHECK((report.loaded.empty() && report.different.size() == 2));
}

TEST_CASE("floating types are converted where that is asked for", "[weights][python]") {
  Folder const folder;
  Net saved, loaded;
  fulgurite::save_pt(saved, folder / "a.pt");
  loaded.in->to(torch::kBFloat16);
  CHECK_THAT(refusal([&] { fulgurite::load_weights(loaded, folder / "a.pt"); }),
             ContainsSubstring("different: in.weight (the file has F32 [3, 4], the model BF16 [3, 4])"));
  CHECK(fulgurite::load_weights(loaded, folder / "a.pt", {.convert = true}).loaded.size() == 9);
  CHECK(same_bits(loaded.in->weight, saved.in->weight.to(torch::kBFloat16)));
  struct Counts : torch::nn::Module {
    torch::Tensor weight = register_buffer("weight", torch::zeros({3, 4}, torch::kLong));
  } counts;
  fulgurite::WeightOptions const part{.strict = false, .convert = true, .from = "in."};
  CHECK(fulgurite::load_weights(counts, folder / "a.pt", part).different == Names{"weight"});
}

TEST_CASE("a damaged .pt file changes nothing", "[weights][python]") {
  Folder const folder;
  Net saved, loaded;
  auto const before = loaded.in->weight.clone();
  torch::nn::init::zeros_(saved.out->bias);
  fulgurite::save_pt(saved, folder / "a.pt");
  auto const at = fulgurite::PtFile(folder / "a.pt").find("out.bias")->storage->begin;
  std::fstream file(folder / "a.pt", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(at));
  file.put('x');
  file.close();
  CHECK_THAT(refusal([&] { fulgurite::load_weights(loaded, folder / "a.pt"); }),
             ContainsSubstring("'archive/data/5' are not those that were saved"));
  CHECK(same_bits(loaded.in->weight, before));
}

TEST_CASE("Python loads what save_pt writes, and we load what Python saves", "[weights][python]") {
  auto const* const given = std::getenv("FULGURITE_PYTHON");
  std::string const python = given != nullptr ? given : "python3";
  if (std::system((python + " -c 'import torch' >/dev/null 2>&1").c_str()) != 0)
    SKIP(python << " cannot import torch: name one that can in FULGURITE_PYTHON");
  Folder const folder;
  Net saved, loaded;
  saved.forward(torch::randn({8, 4}));
  fulgurite::save_pt(saved, folder / "ours.pt");
  std::ofstream(folder / "both.py") << R"(
import sys
import torch
ours, theirs, wrapped = sys.argv[1:]
net = torch.nn.Module()
net.add_module('in', torch.nn.Linear(4, 3))
net.norm, net.out = torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 1)
weights = torch.load(ours)
net.load_state_dict(weights)
assert type(weights).__name__ == 'OrderedDict' and weights['norm.num_batches_tracked'].dtype == torch.int64
torch.save(net.state_dict(), theirs)
weights = {'model.' + name: tensor.t().contiguous().t() for name, tensor in weights.items() if tensor.dim() < 3}
optimizer = torch.optim.AdamW(net.parameters())
net.out(torch.ones(1, 3)).sum().backward()
optimizer.step()
schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [3, 5])
torch.save({'epoch': 3, 'state_dict': weights, 'optimizer_states': [optimizer.state_dict()],
            'lr_schedulers': [schedule.state_dict()],
            'hyper_parameters': {'lr': 1e-3, 'sizes': (1, 2), 'name': None}}, wrapped)
)";
  auto const run = python + " " + (folder / "both.py").string() + " " + (folder / "ours.pt").string() + " " +
                   (folder / "theirs.pt").string() + " " + (folder / "wrapped.ckpt").string();
  REQUIRE(std::system(run.c_str()) == 0);
  CHECK(fulgurite::load_weights(loaded, folder / "theirs.pt").loaded.size() == 9);
  CHECK(equal(saved, loaded));
  Net again;
  CHECK(fulgurite::load_weights(again, folder / "wrapped.ckpt", {.remove_prefix = {"model."}}).loaded.size() == 9);
  CHECK(equal(saved, again));
}
