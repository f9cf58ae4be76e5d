// The program that crash.py kills: a fit on toy tensors whose files are real ones. See trainee.hpp.
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fulgurite/callback/model_checkpoint.hpp>
#include <fulgurite/callback/signals.hpp>
#include <fulgurite/data/loader.hpp>
#include <fulgurite/logger/csv_logger.hpp>

#include "callback_run.hpp"
#include "trainee.hpp"

using namespace fulgurite;
using namespace crash;

namespace {

struct TellingBackend : probe::SavingBackend {
  template <class... Args>
  static void save(std::filesystem::path const& path, Args&&... args) {
    probe::SavingBackend::save(path, std::forward<Args>(args)...);
    say("saved " + std::to_string(steps_done));
  }
};
struct TellingDevice : toy::Device {
  using Backend = TellingBackend;
};

/// 160 weights, momentum, drop-out: all that a step does depends on all steps before it.
struct Net {
  static constexpr Metric<"loss"> loss{};
  static constexpr Metric<"vl"> vl{};
  using Metrics = MetricList<loss, vl>;

  std::vector<toy::Tensor> all = [] {
    std::vector<toy::Tensor> made;
    for (int i = 0; i != 160; ++i) made.push_back(toy::Tensor::parameter(1.0 / (1 + i)));
    return made;
  }();
  std::vector<toy::Tensor> parameters() const { return all; }

  toy::Tensor training_step(std::vector<int> const& batch, auto& ctx) {
    toy::Tensor sum(0.0);
    for (std::size_t i = 0; i != all.size(); ++i) {
      double const kept = toy::draw() < 0.25 ? 0.0 : 1.0;
      auto const sample = static_cast<double>(batch[i % batch.size()]);
      sum = sum + all[i] * all[i] * toy::Tensor(kept * (1.0 + sample / 64));
    }
    ctx.log(loss, sum);
    return sum;
  }
  void validation_step(double batch, auto& ctx) { ctx.log(vl, all.front().value() + batch); }
  toy::Sgd configure_optimizers() { return toy::Sgd{.params = all, .rate = 0.01, .momentum = 0.9}; }
};

void fit(std::filesystem::path const& folder, std::optional<CkptPath> const& from) {
  std::vector<int> numbers;
  for (int i = 0; i != 30; ++i) numbers.push_back(i);
  data::Loader loader{numbers, {.batch_size = 4, .shuffle = true, .seed = 9}};
  Net net;
  auto trainer = make_trainer<Net>(
      TrainerOptions{.max_epochs = 3, .num_sanity_val_steps = 1, .log_every_n_steps = 1, .default_root_dir = folder},
      TellingDevice{}, Float32{}, Automatic{.accumulate_grad_batches = 3}, CSVLogger{folder}, Tells{},
      ModelCheckpoint{{.dirpath = folder / "files",
                       .save_last = SaveLast::link,
                       .every_n_train_steps = 2,
                       .save_on_train_epoch_end = false}});
  trainer.fit(net, loader, toy::batches(2), from);
  for (auto const& warning : trainer.warnings()) say("warning " + warning);
  Hash hash;
  for (auto const& weight : net.all) hash(weight.value());
  hash(toy::world.rng);
  hash(static_cast<long>(trainer.progress().global_step));
  hash(static_cast<long>(trainer.progress().epoch));
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
    probe::SavingBackend::RunFile const opened(file);
    SafetensorsFile const weights(file);
    Net net;
    for (std::size_t i = 0; i != net.all.size(); ++i)
      if (weights.find(std::to_string(i)) == nullptr) return "it has no weight " + std::to_string(i);
    opened.load_weights(net);
    return {};
  } catch (Error const& error) { return error.what(); }
}

}  // namespace

int main(int words, char** given) { return run(words, given, fit, damage); }
