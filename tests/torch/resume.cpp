// A fit on LibTorch that is stopped at every place and gone on with ends with the bits of the unbroken one: weights,
// averages, moments, schedules, random numbers, logged rows, and the hooks that are called on the way.

#include "resumed.hpp"

#include <filesystem>
#include <functional>
#include <optional>

#include <fulgurite/fulgurite.hpp>
#include <fulgurite/torch/capture/captured.hpp>

using namespace fulgurite;
using namespace resumed;
namespace F = torch::nn::functional;

namespace {

enum class Optimizer { ours, torch };

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
    if constexpr (Which == Optimizer::torch)
      return scheduled(torch::optim::AdamW(this->parameters(), torch::optim::AdamWOptions(0.02)),
                       schedule::Cosine{.total = 12});
    else
      return scheduled(scheduled(optim::AdamW(*this, {.lr = 0.02}), schedule::Cosine{.total = 12}),
                       // No loss is an improvement, so that the rate falls twice in three epochs.
                       schedule::ReduceOnPlateau{val_loss, {.mode = Mode::max, .factor = 0.5, .patience = 0}});
  }
};

/// How many of the files of a fit do not lead to its end, and how many there are: dropout, windows of three batches the
/// last of which is short, clipping, a cosine per step and a plateau on validation, an average, rates among the rows.
template <Optimizer Which, class Make, class Precision, class Loader>
Wrong wrong_fits(Make strategy, Precision precision, Loader const& loader) {
  std::function<void(fs::path const&)> save;
  auto const one = [&](Watches const& watches, std::optional<CkptPath> const& from) {
    return run<Net<Which>>(
        watches, from,
        [&](Watches const& watching) {
          return make_trainer<Net<Which>>(
              TrainerOptions{.max_epochs = 3, .val_check_interval = 4, .log_every_n_steps = 1}, strategy(), precision,
              Automatic{.accumulate_grad_batches = 3, .clip = ClipNorm{0.5}}, EMAWeightAveraging(),
              LearningRateMonitor{}, watching, NoDefaults{});
        },
        [&](auto& trainer, auto& net, auto const& file) {
          save = [&](fs::path const& to) { trainer.save_checkpoint(to); };
          data::TensorLoader validation{
              torch::linspace(-1, 1, 30).reshape({5, 6}), torch::arange(5) % 3, {.batch_size = 5}};
          auto batches = loader();
          trainer.fit(net, batches, validation, file);
        });
  };
  return wrong_files(one, false, &save);
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

// So many files: at the end of 7 batches, inside of windows, too; where these are closed, after one validation, and
// after the epoch; of each of three epochs. Fewer would be no test.
auto const none_wrong = Wrong(0, 48);

TEST_CASE("resume: every step: stopped at each place, inside windows, too, the run ends with the same bits") {
  CHECK(wrong_fits<Optimizer::ours>(eager, Bf16Mixed{}, gathered) == none_wrong);
  CHECK(wrong_fits<Optimizer::ours>(eager, Bf16Mixed{}, with_workers) == none_wrong);
  CHECK(wrong_fits<Optimizer::ours>(eager, Float32{}, with_workers) == none_wrong);
  CHECK(wrong_fits<Optimizer::torch>(eager, Float32{}, gathered) == none_wrong);
}

TEST_CASE("resume: every step, captured: the steps are recorded anew, and end with the same bits") {
  auto const captured = [] { return Captured{SingleDevice{cpu}}; };
  CHECK(wrong_fits<Optimizer::ours>(captured, Bf16Mixed{}, gathered) == none_wrong);
  CHECK(wrong_fits<Optimizer::ours>(captured, Bf16Mixed{}, with_workers) == none_wrong);
  CHECK(wrong_fits<Optimizer::ours>(captured, Float32{}, gathered) == none_wrong);
}

TEST_CASE("resume: a snapshot in memory leads to the bits that a file of its moment leads to, and back to its own") {
  auto const of = [](int epochs) {
    return TrainerOptions{.max_epochs = epochs, .num_sanity_val_steps = 0, .log_every_n_steps = 1};
  };
  auto const make = [&](int epochs) {
    return make_trainer<Net<Optimizer::ours>>(of(epochs), SingleDevice{cpu}, Float32{}, Automatic{},
                                              EMAWeightAveraging(), NoDefaults{});
  };
  auto const path = of_this_process("moment.safetensors");
  Net<Optimizer::ours> net, other;
  auto trainer = make(1), again = make(3);
  auto loader = gathered();
  data::TensorLoader validation{inputs, targets, {.batch_size = 33}};
  trainer.fit(net, loader, validation);
  auto const kept = snapshot(trainer);
  trainer.save_checkpoint(path);
  auto const then = hash_of(net, trainer);

  trainer.set_options(of(3));
  trainer.fit(net, loader, validation, kept);
  auto second = gathered();
  again.fit(other, second, validation, CkptPath{path});
  fs::remove(path);
  auto const ended = hash_of(net, trainer);
  CHECK(ended == hash_of(other, again));
  CHECK(ended != then);
  restore(trainer, kept);
  CHECK(hash_of(net, trainer) == then);
}
