// The program that crash.py kills, on LibTorch: drop-out, shuffled data, an arena's AdamW, windows, an average of the
// weights, files that are written in the background. See trainee.hpp.
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include <torch/torch.h>

#include <fulgurite/fulgurite.hpp>

#include "trainee.hpp"

using namespace fulgurite;
using namespace crash;

namespace {

/// Says what it has written, when it says so to the loops.
struct TellingWriter : BackgroundWriter {
  long copied_at = 0;
  void start() {
    copied_at = steps_done;
    BackgroundWriter::start();
  }
  void write(std::filesystem::path const& path) {
    BackgroundWriter::write(path);
    say("saved " + std::to_string(copied_at));
  }
};
struct TellingBackend : LibTorch {
  using Background = TellingWriter;
};
struct TellingDevice : SingleDevice<Cpu> {
  using Backend = TellingBackend;
  TellingDevice() : SingleDevice(cpu) {}
};

struct Net : torch::nn::Module {
  static constexpr Metric<"loss"> loss{.on_step = Report::yes, .on_epoch = Report::yes};
  static constexpr Metric<"vl"> vl{};
  using Metrics = MetricList<loss, vl>;
  torch::nn::Linear in = register_module("in", torch::nn::Linear(16, 32));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(32));
  torch::nn::Dropout drop = register_module("drop", torch::nn::Dropout(0.25));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(32, 4));

  torch::Tensor loss_of(auto const& batch) {
    auto const hidden = drop->forward(torch::relu(norm->forward(in->forward(batch.data))));
    return torch::nn::functional::cross_entropy(out->forward(hidden), batch.target);
  }
  torch::Tensor training_step(auto const& batch, auto& ctx) {
    auto value = loss_of(batch);
    ctx.log(loss, value);
    return value;
  }
  void validation_step(auto const& batch, auto& ctx) { ctx.log(vl, loss_of(batch)); }
  auto configure_optimizers() {
    return scheduled(optim::AdamW(*this, {.lr = 0.01}), schedule::Cosine{.total = 60}, {.interval = Interval::step});
  }
};

void fit(std::filesystem::path const& folder, std::optional<CkptPath> const& from) {
  torch::set_num_threads(1);  // as many on every machine, so that there is one hash
  torch::manual_seed(from ? 3 : 4);
  auto const inputs = torch::linspace(-2, 2, 118 * 16).reshape({118, 16}).sin();
  auto const targets = torch::arange(118) % 4;
  // 30 batches an epoch, of which the last has two samples.
  data::TensorLoader loader{inputs, targets, {.batch_size = 4, .shuffle = true, .seed = 9}};
  data::TensorLoader validation{inputs, targets, {.batch_size = 59}};
  torch::manual_seed(11);
  Net net;
  TrainerOptions options{.max_epochs = 3, .num_sanity_val_steps = 1, .log_every_n_steps = 1};
  options.default_root_dir = folder;
  options.save_in_background = true;
  auto trainer = make_trainer<Net>(options, TellingDevice{}, Float32{},
                                   Automatic{.accumulate_grad_batches = 2, .clip = ClipNorm{0.5}}, EMAWeightAveraging(),
                                   CSVLogger{folder}, Tells{},
                                   ModelCheckpoint{{.dirpath = folder / "files",
                                                    .save_last = SaveLast::link,
                                                    .every_n_train_steps = 2,
                                                    .save_on_train_epoch_end = false}},
                                   NoDefaults{});
  trainer.fit(net, loader, validation, from);
  for (auto const& warning : trainer.warnings()) say("warning " + warning);
  Hash hash;
  auto const add = [&](torch::Tensor const& tensor) {
    auto const host = tensor.detach().contiguous();
    hash.bytes({static_cast<char const*>(host.const_data_ptr()), host.nbytes()});
  };
  for (auto const& parameter : net.parameters()) add(parameter);
  for (auto const& buffer : net.buffers()) add(buffer);
  ArchiveNode state;
  StateSaver saver(state);
  saver.child("average", trainer.callback<EMAWeightAveraging>());
  auto const average = to_text(state);
  hash.bytes(average);
  hash(static_cast<long>(trainer.progress().global_step));
  hash(static_cast<long>(trainer.progress().epoch));
  add(torch::rand({4}));
  auto const logs = trainer.callback<CSVLogger>().log_dir();
  say("logs " + logs.string());
  Hash rows;
  rows.bytes(content_of(logs / "metrics.csv"));
  say("rows " + rows.text());
  say("hash " + hash.text());
}

/// What is wrong with a file; empty where it can be gone on from.
std::string damage(std::filesystem::path const& file) {
  try {
    TellingBackend::RunFile const opened(file);
    Net net;
    opened.load_weights(net);
    return {};
  } catch (Error const& error) { return error.what(); }
}

}  // namespace

int main(int words, char** given) { return run(words, given, fit, damage); }
