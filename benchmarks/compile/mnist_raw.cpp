// examples/mnist.cpp without the library: the same data, net, training, validation, table, progress, metrics file and
// best weights, on torch/torch.h alone. `tools/dev bench compile` compares how long the two take to compile (P12).

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <torch/torch.h>
#include <zlib.h>

#include "../../examples/helpers/arguments.hpp"

namespace nn = torch::nn;
namespace F = torch::nn::functional;
namespace fs = std::filesystem;

struct CnnImpl : nn::Module {
  nn::Sequential body = register_module(
      "body", nn::Sequential(nn::Conv2d(nn::Conv2dOptions(1, 16, 3).padding(1)), nn::BatchNorm2d(16), nn::MaxPool2d(2),
                             nn::ReLU(), nn::Conv2d(nn::Conv2dOptions(16, 32, 3).padding(1)), nn::BatchNorm2d(32),
                             nn::MaxPool2d(2), nn::ReLU(), nn::Flatten(), nn::Dropout(0.25),
                             nn::Linear(32 * 7 * 7, 128), nn::ReLU(), nn::Dropout(0.5), nn::Linear(128, 10)));
  torch::Tensor forward(torch::Tensor const& pixels) { return body->forward(pixels); }
};
TORCH_MODULE(Cnn);

/// One of MNIST's files, packed or not: its sizes, then its bytes.
struct Idx {
  std::vector<std::int64_t> sizes;
  torch::Tensor bytes;
};

Idx read_idx(fs::path const& folder, std::string const& name) {
  auto const file = fs::exists(folder / name) ? folder / name : folder / (name + ".gz");
  gzFile const in = gzopen(file.c_str(), "rb");
  if (!in) throw std::runtime_error(file.string() + " cannot be read");
  auto const number = [&] {
    unsigned char b[4] = {};
    if (gzread(in, b, 4) != 4) throw std::runtime_error(file.string() + " ends too early");
    return std::int64_t{b[0]} << 24 | std::int64_t{b[1]} << 16 | std::int64_t{b[2]} << 8 | std::int64_t{b[3]};
  };
  Idx read;
  std::int64_t const magic = number();
  if (magic != 0x801 && magic != 0x803) throw std::runtime_error(file.string() + " is not one of MNIST's files");
  for (std::int64_t i = 0; i != (magic & 0xff); ++i) read.sizes.push_back(number());
  read.bytes = torch::empty(read.sizes, torch::kByte);
  auto const length = static_cast<unsigned>(read.bytes.numel());
  if (gzread(in, read.bytes.data_ptr<std::uint8_t>(), length) != static_cast<int>(length))
    throw std::runtime_error(file.string() + " ends too early");
  gzclose(in);
  return read;
}

/// Some of the images of a set.
class Images : public torch::data::datasets::Dataset<Images> {
 public:
  Images(torch::Tensor data, torch::Tensor target) : data_(std::move(data)), target_(std::move(target)) {}
  torch::data::Example<> get(std::size_t i) override {
    auto const at = static_cast<std::int64_t>(i);
    return {data_[at], target_[at]};
  }
  torch::optional<std::size_t> size() const override { return static_cast<std::size_t>(data_.size(0)); }

 private:
  torch::Tensor data_, target_;
};

/// A fifth is for validation. The folder may have only one of MNIST's two parts.
std::pair<Images, Images> read_mnist(fs::path const& folder) {
  std::string const part =
      fs::exists(folder / "train-images-idx3-ubyte") || fs::exists(folder / "train-images-idx3-ubyte.gz") ? "train"
                                                                                                          : "t10k";
  auto const images = read_idx(folder, part + "-images-idx3-ubyte"),
             labels = read_idx(folder, part + "-labels-idx1-ubyte");
  auto const data = images.bytes.unsqueeze(1).to(torch::kFloat).div_(255), target = labels.bytes.to(torch::kLong);
  auto const order = torch::randperm(data.size(0), torch::kLong);
  auto const parts = order.split({data.size(0) - data.size(0) / 5, data.size(0) / 5});
  std::fprintf(stderr, "MNIST from %s: %ld images to train on, %ld to validate\n", folder.c_str(),
               long(parts[0].size(0)), long(parts[1].size(0)));
  return {Images(data.index_select(0, parts[0]), target.index_select(0, parts[0])),
          Images(data.index_select(0, parts[1]), target.index_select(0, parts[1]))};
}

struct Validated {
  double loss = 0, accuracy = 0;
};

template <class Loader>
Validated validate(Cnn& model, Loader& loader, torch::Device device, std::optional<long> limit = std::nullopt) {
  torch::NoGradGuard const off;
  model->eval();
  auto loss = torch::zeros({}, device), right = torch::zeros({}, device);
  long seen = 0, batches = 0;
  for (auto& batch : loader) {
    if (limit && batches++ == *limit) break;
    auto const data = batch.data.to(device), target = batch.target.to(device);
    auto const logits = model->forward(data);
    loss += F::cross_entropy(logits, target) * data.size(0);
    right += (logits.argmax(1) == target).sum();
    seen += data.size(0);
  }
  model->train();
  return {loss.item<double>() / double(seen), right.item<double>() / double(seen)};
}

void print_summary(Cnn const& model) {
  long total = 0;
  std::printf("  | Name    | Type            | Params\n---------------------------------------\n");
  for (auto const& layer : model->body->named_children()) {
    long count = 0;
    for (auto const& p : layer.value()->parameters()) count += p.numel();
    total += count;
    std::printf("%s | body.%-2s | %-15s | %ld\n", layer.key().c_str(), layer.key().c_str(),
                layer.value()->name().c_str(), count);
  }
  std::printf("---------------------------------------\n%ld trainable parameters, %.3f MB\n", total,
              double(total) * 4 / 1e6);
}

/// The first folder lightning_logs/version_N that is not there yet.
fs::path new_version(fs::path const& root) {
  int n = 0;
  while (fs::exists(root / "lightning_logs" / ("version_" + std::to_string(n)))) ++n;
  auto const folder = root / "lightning_logs" / ("version_" + std::to_string(n));
  fs::create_directories(folder / "checkpoints");
  return folder;
}

int main(int argc, char** argv) try {
  example::Arguments arguments(argc, argv, "Trains a small convolutional network on handwritten digits.");
  bool const fast = arguments.flag("--fast", "ten batches, to see that everything works");
  int const epochs = arguments.value("--epochs", 8, "passes over the training images");
  auto const batch_size = arguments.value<std::size_t>("--batch-size", 64, "images in a batch");
  auto const seed = arguments.value<std::uint64_t>("--seed", 1, "of the weights, the split, the order and the dropout");
  int const threads = arguments.value("--threads", 1, "of the CPU");
  auto const wanted = arguments.value<std::string>("--device", "auto", "cpu, cuda or auto");
  auto const out =
      arguments.value<std::string>("--out", ".", "folder under which lightning_logs gets metrics and weights");
  auto const data = arguments.value<std::string>("--data", "data/mnist", "folder with MNIST's files");
  arguments.done();

  torch::set_num_threads(threads);
  torch::manual_seed(seed);
  torch::Device const device(wanted == "cuda" || (wanted == "auto" && torch::cuda::is_available()) ? torch::kCUDA
                                                                                                   : torch::kCPU);
  auto [train_set, val_set] = read_mnist(data);
  auto const train_size = long(*train_set.size());
  auto train = torch::data::make_data_loader<torch::data::samplers::RandomSampler>(
      train_set.map(torch::data::transforms::Stack<>()), batch_size);
  auto val = torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(
      val_set.map(torch::data::transforms::Stack<>()), batch_size);

  Cnn model;
  model->to(device);
  print_summary(model);
  torch::optim::Adam optimizer(model->parameters(), 2e-3);
  torch::optim::StepLR schedule(optimizer, 1, 0.7);
  auto const folder = new_version(out);
  std::ofstream csv(folder / "metrics.csv");
  csv << "epoch,step,lr-Adam,train/loss,val/loss,val/accuracy\n";

  validate(model, *val, device, 2);
  long const batches = fast ? 10 : (train_size + long(batch_size) - 1) / long(batch_size);
  long step = 0;
  int waited = 0;
  std::optional<double> least_loss, best_accuracy;
  std::string best_file;
  for (int epoch = 0; epoch != (fast ? 1 : epochs) && waited < 3; ++epoch) {
    long batch_idx = 0;
    auto const began = std::chrono::steady_clock::now();
    for (auto& batch : *train) {
      if (batch_idx == batches) break;
      optimizer.zero_grad();
      auto loss = F::cross_entropy(model->forward(batch.data.to(device)), batch.target.to(device));
      loss.backward();
      optimizer.step();
      ++batch_idx;
      if (++step % 50 == 0)
        csv << epoch << ',' << step - 1 << ',' << optimizer.param_groups()[0].options().get_lr() << ','
            << loss.item<double>() << ",,\n";
      if (batch_idx % 20 == 0 || batch_idx == batches) {
        double const seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
        std::printf("\rEpoch %d: %3ld%% %ld/%ld [%.1fit/s, train/loss=%.3f]", epoch, 100 * batch_idx / batches,
                    batch_idx, batches, double(batch_idx) / seconds, loss.item<double>());
        std::fflush(stdout);
      }
    }
    auto const [loss, accuracy] = validate(model, *val, device);
    csv << epoch << ',' << step - 1 << ",,," << loss << ',' << accuracy << '\n' << std::flush;
    std::printf(" val/loss=%.3f val/accuracy=%.3f\n", loss, accuracy);
    schedule.step();

    if (!best_accuracy || accuracy > *best_accuracy) {
      auto const file =
          folder / "checkpoints" / ("epoch=" + std::to_string(epoch) + "-step=" + std::to_string(step) + ".pt");
      torch::serialize::OutputArchive archive, weights, state;
      model->save(weights);
      optimizer.save(state);
      archive.write("model", weights);
      archive.write("optimizer", state);
      archive.write("epoch", torch::tensor(epoch));
      archive.write("global_step", torch::tensor(step));
      archive.save_to(file);
      if (!best_file.empty()) fs::remove(best_file);
      best_file = file;
      best_accuracy = accuracy;
    }
    waited = !least_loss || loss < *least_loss ? 0 : waited + 1;
    if (waited == 0) least_loss = loss;
  }

  Cnn reloaded;
  torch::serialize::InputArchive archive, weights;
  archive.load_from(best_file);
  archive.read("model", weights);
  reloaded->load(weights);
  reloaded->to(device);
  double const again = validate(reloaded, *val, device).accuracy;
  std::printf("validation accuracy %.2f %%; a new model with the weights of %s: %.2f %%, %s\n", 100 * *best_accuracy,
              best_file.c_str(), 100 * again, again == *best_accuracy ? "exactly the same" : "NOT THE SAME");
  if (again != *best_accuracy) throw std::runtime_error("the best file does not hold the best weights");
} catch (std::exception const& error) { return example::failed(error); }
