// A fit on LibTorch that is stopped at every place and gone on with ends with the bits of the unbroken one: weights,
// averages, moments, schedules, random numbers, logged rows, and the hooks that are called on the way.

#include "fixtures.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fulgurite/checkpoint/run_file.hpp>
#include <fulgurite/fulgurite.hpp>
#include <fulgurite/torch/capture/captured.hpp>

using namespace fulgurite;
namespace F = torch::nn::functional;
namespace fs = std::filesystem;

namespace {

/// FNV-1a, over bytes.
struct Hash {
  std::uint64_t value = 1469598103934665603ULL;
  void add(void const* bytes, std::size_t size) {
    for (std::size_t i = 0; i != size; ++i)
      value = (value ^ static_cast<unsigned char const*>(bytes)[i]) * 1099511628211ULL;
  }
  void add(torch::Tensor const& tensor) {
    auto const host = tensor.detach().cpu().contiguous();
    add(host.const_data_ptr(), host.nbytes());
  }
};

enum class Optimizer { ours, torch, plateau };

template <Optimizer Which>
struct Net : torch::nn::Module {
  static constexpr Metric<"loss"> loss{.on_step = Report::yes, .on_epoch = Report::yes};
  static constexpr Metric<"val/loss"> val_loss{};
  using Metrics = MetricList<loss, val_loss>;
  torch::nn::Linear in = register_module("in", torch::nn::Linear(6, 8));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(8));
  torch::nn::Dropout drop = register_module("drop", torch::nn::Dropout(0.3));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(8, 3));

  torch::Tensor forward(torch::Tensor const& x) {
    return out->forward(drop->forward(torch::relu(norm->forward(in->forward(x)))));
  }
  torch::Tensor training_step(auto const& batch, auto& ctx) {
    auto value = F::cross_entropy(forward(batch.data), batch.target);
    ctx.log(loss, value);
    return value;
  }
  void validation_step(auto const& batch, auto& ctx) {
    ctx.log(val_loss, F::cross_entropy(forward(batch.data), batch.target));
  }
  auto configure_optimizers() {
    ScheduleOptions const each_step{.interval = Interval::step};
    if constexpr (Which == Optimizer::plateau)
      return scheduled(optim::AdamW(*this, {.lr = 0.02}),
                       schedule::ReduceOnPlateau{val_loss, {.factor = 0.5, .patience = 0, .strict = false}}, each_step);
    else if constexpr (Which == Optimizer::ours)
      return scheduled(optim::AdamW(*this, {.lr = 0.02}), schedule::Cosine{.total = 12}, each_step);
    else
      return scheduled(torch::optim::AdamW(this->parameters(), torch::optim::AdamWOptions(0.02)),
                       schedule::Cosine{.total = 12}, each_step);
  }
};

/// Asks for a file after each batch, validation and epoch; notes rows, files, and the hooks between them.
struct Watches {
  using Stateless = ByChoice;
  static constexpr Order order = Order::checkpoint;
  fs::path folder = {};  ///< empty: no files
  int* files = nullptr;
  std::vector<std::string>* rows = nullptr;

  void on_train_epoch_start(auto& ctx) { hear("train_epoch_start", ctx); }
  void on_train_batch_start(auto& ctx) { hear("train_batch_start", ctx); }
  void on_before_optimizer_step(auto& ctx) { hear("before_optimizer_step", ctx); }
  void on_train_batch_end(auto& ctx) {
    hear("train_batch_end", ctx);
    ask(ctx);
  }
  void on_validation_start(auto& ctx) {
    if (!ctx.sanity_checking()) hear("validation_start", ctx);
  }
  void on_validation_end(auto& ctx) {
    if (ctx.sanity_checking()) return;
    hear("validation_end", ctx);
    ask(ctx);
  }
  void on_train_epoch_end(auto& ctx) {
    hear("train_epoch_end", ctx);
    ask(ctx);
  }
  void on_train_end(auto& ctx) { hear("train_end", ctx); }
  void log_metrics(std::span<Scalar const> cells, long x) {
    std::string row = std::to_string(x);
    for (auto const& cell : cells) {
      char bits[40];
      std::snprintf(bits, sizeof bits, " %a", cell.value);
      row += " " + std::string(cell.name) + bits;
    }
    rows->push_back(row);
  }

 private:
  void hear(std::string const& hook, auto& ctx) {
    rows->push_back(hook + " " + std::to_string(ctx.current_epoch()) + " " + std::to_string(ctx.global_step()));
  }
  void ask(auto& ctx) {
    if (folder.empty()) return;
    ctx.request_checkpoint({this, [this](CheckpointFiles& to) {
                              to.write(folder / (std::to_string((*files)++) + ".safetensors"));
                              rows->push_back("file");
                            }});
  }
};

struct Ended {
  std::uint64_t hash;
  std::vector<std::string> rows;
};

/// All that a file of the trainer holds but times: moments, schedules, averages, counters, generators, results.
template <class Trainer>
std::string state_of(Trainer& trainer) {
  auto const path = fs::temp_directory_path() / ("fulgurite_ended_" + std::to_string(::getpid()) + ".safetensors");
  trainer.save_checkpoint(path);
  SafetensorsFile const file(path);
  auto const state = run_state(file);
  fs::remove(path);
  std::string text;
  for (auto const* part : {"progress", "optimizers", "schedulers", "callbacks", "random", "results"})
    text += to_text(*state.find(part));
  return text;
}

template <Optimizer Which, class Strategy, class Precision, class Loader>
Ended run(Strategy strategy, Precision precision, Loader loader, Watches watches, std::optional<CkptPath> from) {
  torch::manual_seed(from ? 99 : 7);  // a run that goes on does not depend on what its program draws
  Net<Which> net;
  Ended ended{};
  watches.rows = &ended.rows;
  data::TensorLoader validation{torch::linspace(-1, 1, 30).reshape({5, 6}), torch::arange(5) % 3, {.batch_size = 5}};
  auto trainer = make_trainer<Net<Which>>(
      TrainerOptions{.max_epochs = 3, .val_check_interval = 4, .log_every_n_steps = 1}, std::move(strategy), precision,
      Automatic{.accumulate_grad_batches = 3, .clip = ClipNorm{0.5}}, EMAWeightAveraging(), watches);
  trainer.fit(net, loader, validation, from);
  Hash hash;
  for (auto const& parameter : net.parameters()) hash.add(parameter);
  for (auto const& buffer : net.buffers()) hash.add(buffer);
  auto const state = state_of(trainer);
  hash.add(state.data(), state.size());
  hash.add(torch::rand({4}));
  ended.hash = hash.value;
  return ended;
}

/// How many of the files do not lead to the end of the unbroken run, and how many there are.
template <Optimizer Which, class Make, class Precision, class Loader>
std::pair<int, int> wrong_files(Make make, Precision precision, Loader const& loader) {
  auto const folder = fs::temp_directory_path() / ("fulgurite_resume_" + std::to_string(::getpid()));
  fs::remove_all(folder);
  int files = 0, wrong = 0;
  auto const whole = run<Which>(make(), precision, loader(), {.folder = folder, .files = &files}, std::nullopt);
  std::size_t after = 0;
  for (int file = 0; file != files; ++file) {
    while (whole.rows[after++] != "file") {}
    std::vector<std::string> rest(whole.rows.begin() + static_cast<std::ptrdiff_t>(after), whole.rows.end());
    std::erase(rest, "file");
    auto const now =
        run<Which>(make(), precision, loader(), {}, CkptPath{folder / (std::to_string(file) + ".safetensors")});
    wrong += now.hash != whole.hash || now.rows != rest;
  }
  fs::remove_all(folder);
  return {wrong, files};
}

auto const inputs = torch::linspace(-2, 2, 33 * 6).reshape({33, 6}).sin();
auto const targets = torch::arange(33) % 3;
/// 7 batches an epoch, so that the last window has one.
auto gathered() { return data::TensorLoader{inputs, targets, {.batch_size = 5, .shuffle = true, .seed = 3}}; }
struct Rows {
  std::size_t size() const { return 33; }
  torch::data::Example<> get(std::size_t i) const {
    auto const at = static_cast<std::int64_t>(i);
    return {inputs[at], targets[at]};
  }
};
auto with_workers() {
  return data::Loader{Rows{}, {.batch_size = 5, .shuffle = true, .seed = 3, .workers = 2}, data::Stack{}};
}
auto const eager = [] { return SingleDevice{cpu}; };

}  // namespace

// So many files: after 7 batches, one validation and the end of each of three epochs. Fewer would be no test.
auto const none_wrong = std::pair(0, 27);

TEST_CASE("resume: stopped after each batch, validation and epoch, the run ends with the same bits") {
  CHECK(wrong_files<Optimizer::torch>(eager, Float32{}, gathered) == none_wrong);
  CHECK(wrong_files<Optimizer::ours>(eager, Float32{}, gathered) == none_wrong);
  CHECK(wrong_files<Optimizer::ours>(eager, Bf16Mixed{}, gathered) == none_wrong);
  CHECK(wrong_files<Optimizer::ours>(eager, Float32{}, with_workers) == none_wrong);
  CHECK(wrong_files<Optimizer::plateau>(eager, Float32{}, gathered) == none_wrong);
}

TEST_CASE("resume: captured steps are recorded anew, and end with the same bits") {
  auto const captured = [] { return Captured{SingleDevice{cpu}}; };
  CHECK(wrong_files<Optimizer::ours>(captured, Float32{}, gathered) == none_wrong);
  CHECK(wrong_files<Optimizer::ours>(captured, Float32{}, with_workers) == none_wrong);
}

TEST_CASE("resume: a snapshot in memory leads to the bits that a file of its moment leads to, and back to its own") {
  auto const of = [](int epochs) {
    return TrainerOptions{.max_epochs = epochs, .num_sanity_val_steps = 0, .log_every_n_steps = 1};
  };
  auto const make = [&](int epochs) {
    return make_trainer<Net<Optimizer::ours>>(of(epochs), SingleDevice{cpu}, Float32{}, Automatic{},
                                              EMAWeightAveraging());
  };
  auto const hashed = [](auto& net, auto& trainer) {
    Hash hash;
    for (auto const& parameter : net.parameters()) hash.add(parameter);
    for (auto const& buffer : net.buffers()) hash.add(buffer);
    auto const state = state_of(trainer);
    hash.add(state.data(), state.size());
    return hash.value;
  };
  auto const path = fs::temp_directory_path() / ("fulgurite_moment_" + std::to_string(::getpid()) + ".safetensors");
  Net<Optimizer::ours> net, other;
  auto trainer = make(1), again = make(3);
  auto loader = gathered();
  data::TensorLoader validation{inputs, targets, {.batch_size = 33}};
  trainer.fit(net, loader, validation);
  auto const kept = snapshot(trainer);
  trainer.save_checkpoint(path);
  auto const then = hashed(net, trainer);

  trainer.set_options(of(3));
  trainer.fit(net, loader, validation, kept);
  auto second = gathered();
  again.fit(other, second, validation, CkptPath{path});
  fs::remove(path);
  auto const ended = hashed(net, trainer);
  CHECK(ended == hashed(other, again));
  CHECK(ended != then);
  restore(trainer, kept);
  CHECK(hashed(net, trainer) == then);
}
