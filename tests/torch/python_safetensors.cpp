// A Python with safetensors reads the weights of our files, bit for bit: through safetensors.torch.load_file where
// torch can be imported, too, else through the reader below it.
#include "fixtures.hpp"
#include "unit/checkpoint_folder.hpp"

#include <cstdlib>
#include <fstream>
#include <map>
#include <string>

#include <fulgurite/callback/model_checkpoint.hpp>
#include <fulgurite/callback/weight_averaging.hpp>
#include <fulgurite/core/archive_tree.hpp>
#include <fulgurite/loop/trainer.hpp>
#include <fulgurite/torch/data/tensor_loader.hpp>
#include <fulgurite/torch/device/single_device.hpp>
#include <fulgurite/torch/optim/first_order.hpp>
#include <fulgurite/torch/weights/weights.hpp>

namespace {
using namespace fulgurite;
using probe::Folder;

struct Trained : fixtures::Net {
  torch::Tensor scale = register_buffer("scale", torch::full({2, 2}, 0.5, torch::kBFloat16));
  torch::Tensor flags = register_buffer("flags", torch::tensor({true, false, true}));
  torch::Tensor training_step(auto const& batch) { return torch::mse_loss(forward(batch.data), batch.target); }
  auto configure_optimizers() { return optim::AdamW(*this, {.lr = 0.01}); }
};

/// name -> dtype, shape and bytes, as the script below prints them.
std::map<std::string, std::string> weights_of(Trained& net) {
  std::map<std::string, std::string> all;
  libtorch::each_weight(net, [&](std::string_view name, WeightView const& view) {
    all[std::string(name)] = std::string(view.dtype) + " " + libtorch::shape_text(view.shape) + " " +
                             archive::hex({reinterpret_cast<char const*>(view.bytes.data()), view.bytes.size()});
  });
  return all;
}

/// The weights as docs/checkpoint.md says how to read them, a line each.
constexpr char const* script = R"(
import sys
path, out = sys.argv[1:]
known = {'float32': 'F32', 'bfloat16': 'BF16', 'int64': 'I64', 'bool': 'BOOL'}
try:
    import torch
    import safetensors.torch
except ImportError:
    import safetensors
    with open(path, 'rb') as file:
        tensors = dict(safetensors.deserialize(file.read()))
    weights = {n: t for n, t in tensors.items() if not n.startswith('fulgurite:')}
    lines = [f"{n} {t['dtype']} {list(t['shape'])} {bytes(t['data']).hex()}" for n, t in weights.items()]
    reader = 'deserialize'
else:
    tensors = safetensors.torch.load_file(path)
    weights = {n: t for n, t in tensors.items() if not n.startswith('fulgurite:')}
    lines = [f"{n} {known[str(t.dtype).split('.')[1]]} {list(t.shape)} "
             f"{bytes(t.contiguous().flatten().view(torch.uint8).tolist()).hex()}" for n, t in weights.items()]
    reader = 'load_file'
assert len(tensors) > len(weights)
with open(out, 'w') as file:
    file.write('\n'.join([reader, *lines]) + '\n')
)";

}  // namespace

TEST_CASE("Python's safetensors reads the weights of a file that a trainer wrote, bit for bit", "[weights][python]") {
  auto const* const given = std::getenv("FULGURITE_PYTHON");
  std::string const python = given != nullptr ? given : "python3";
  if (std::system((python + " -c 'import safetensors' >/dev/null 2>&1").c_str()) != 0)
    SKIP(python << " cannot import safetensors: tools/dev setup installs it, or name one that can in FULGURITE_PYTHON");
  Folder const folder;
  Trained net;
  data::TensorLoader loader{torch::randn({12, 4}), torch::randn({12, 1}), {.batch_size = 4}};
  auto trainer = make_trainer<Trained>(TrainerOptions{.max_epochs = 2}, SingleDevice{cpu}, Float32{}, Automatic{},
                                       ModelCheckpoint{{.dirpath = folder.path, .filename = "file"}}, NoDefaults{});
  trainer.fit(net, loader);
  std::ofstream(folder / "read.py") << script;
  REQUIRE(std::system((python + " " + (folder / "read.py").string() + " " + (folder / "file.safetensors").string() +
                       " " + (folder / "out").string())
                          .c_str()) == 0);
  std::ifstream out(folder / "out");
  std::string reader, line;
  std::getline(out, reader);
  std::map<std::string, std::string> read;
  while (std::getline(out, line)) read[line.substr(0, line.find(' '))] = line.substr(line.find(' ') + 1);
  INFO("through " << reader);
  CHECK(read.size() == 11);
  CHECK(read == weights_of(net));
}
