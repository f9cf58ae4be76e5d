// Sequences: truncated back-propagation with an LSTM against the same loop by hand, lists of tensors of several
// lengths, packed sequences.
#include "fixtures.hpp"

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <fulgurite/core/error.hpp>
#include <fulgurite/loop/trainer.hpp>
#include <fulgurite/torch/device/single_device.hpp>

namespace {
using namespace fulgurite;
using torch::Tensor;

/// (batch, time, features) and (batch, time, 1).
struct Series {
  Tensor data, target;
};

struct Recurrence : torch::nn::Module {
  using Hidden = std::tuple<Tensor, Tensor>;
  struct Output {
    Tensor loss;
    Hidden hidden;
  };
  static constexpr Metric<"loss"> loss{.on_step = Report::yes, .on_epoch = Report::yes};
  using Metrics = MetricList<loss>;
  torch::nn::LSTM lstm = register_module("lstm", torch::nn::LSTM(torch::nn::LSTMOptions(2, 4).batch_first(true)));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(4, 1));

  Output step(Series const& slice, std::optional<Hidden> const& hidden) {
    auto [out, next] = lstm->forward(slice.data, hidden);
    return {torch::mse_loss(head->forward(out), slice.target), next};
  }
  Output training_step(Series const& slice, std::optional<Hidden> const& hidden, auto& ctx) {
    auto output = step(slice, hidden);
    ctx.log(loss, output.loss);
    return output;
  }
  auto configure_optimizers() { return torch::optim::Adam(parameters(), 0.01); }
};

std::vector<Series> series() {
  torch::manual_seed(5);
  std::vector<Series> all;
  for (int i = 0; i != 3; ++i) all.push_back({torch::randn({4, 15, 2}), torch::randn({4, 15, 1})});
  return all;
}

template <class M>
auto cpu_trainer(TrainerOptions options, Automatic how = {}) {
  return make_trainer<M>(std::move(options), SingleDevice{cpu}, Float32{}, how, NoDefaults{});
}

/// One scalar weight times the mean of a batch, whatever holds it.
template <class Batch>
struct OfSequences : torch::nn::Module {
  static constexpr Metric<"loss"> loss{.on_step = Report::no, .on_epoch = Report::yes};
  using Metrics = MetricList<loss>;
  torch::nn::LSTM lstm = register_module("lstm", torch::nn::LSTM(1, 2));
  long size = 0;
  Tensor training_step(Batch const& batch, auto& ctx) {
    auto const packed = [&] {
      if constexpr (requires { batch.batch_sizes(); }) return batch;
      else return torch::nn::utils::rnn::pack_sequence(batch, false);
    }();
    auto [out, state] = lstm->forward_with_packed_input(packed);
    auto value = out.data().mean();
    size = ctx.batch_size();
    ctx.log(loss, value);
    return value;
  }
  auto configure_optimizers() { return torch::optim::SGD(parameters(), 0.1); }
};

}  // namespace

TEST_CASE("C163 on LibTorch: an LSTM trained in slices of 2 of 15 time steps has the bits of the loop by hand") {
  auto const data = series();
  torch::manual_seed(1);
  Recurrence ours;
  torch::manual_seed(1);
  Recurrence hand;

  auto trainer = cpu_trainer<Recurrence>({.max_epochs = 2}, {.tbptt = 2});
  trainer.fit(ours, data);
  CHECK(trainer.progress().global_step == 2 * 3 * 8);

  auto adam = hand.configure_optimizers();
  for (int epoch = 0; epoch != 2; ++epoch)
    for (auto const& batch : data) {
      std::optional<Recurrence::Hidden> hidden;
      for (long t = 0; t < 15; t += 2) {
        long const n = std::min(2L, 15 - t);
        auto output = hand.step({batch.data.narrow(1, t, n), batch.target.narrow(1, t, n)}, hidden);
        adam.zero_grad();
        output.loss.backward();
        adam.step();
        hidden = std::tuple(std::get<0>(output.hidden).detach(), std::get<1>(output.hidden).detach());
      }
    }
  auto const a = ours.parameters(), b = hand.parameters();
  for (std::size_t i = 0; i != a.size(); ++i) CHECK(fixtures::same_bits(a[i], b[i]));
}

TEST_CASE("C164: parts of a batch with different numbers of time steps are refused, and tensors without time") {
  auto const refused = [](Series batch) {
    Recurrence model;
    std::vector<Series> const data{batch};
    try {
      cpu_trainer<Recurrence>({.max_epochs = 1}, {.tbptt = 2}).fit(model, data);
    } catch (Error const& error) { return std::string(error.identifier()); }
    return std::string();
  };
  CHECK(refused({torch::zeros({4, 15, 2}), torch::zeros({4, 14, 1})}) == "fulgurite.data.time");
  CHECK(refused({torch::zeros({4, 15, 2}), torch::zeros({4})}) == "fulgurite.data.time");
}

TEST_CASE(
    "a list of sequences is cut along each one's first dimension, a tensor along its second, and nothing is copied") {
  struct Mixed {
    std::vector<Tensor> sequences;
    Tensor padded;
  };
  Mixed const batch{{torch::arange(5), torch::arange(5)}, torch::arange(10).view({2, 5})};
  auto const slices = LibTorch::time_slices(batch, 2);
  REQUIRE(slices.size() == 3);
  CHECK(slices[2].sequences[1].sizes() == torch::IntArrayRef({1}));
  CHECK(slices[1].padded.sizes() == torch::IntArrayRef({2, 2}));
  CHECK(slices[1].padded.is_alias_of(batch.padded));
  CHECK(slices[1].sequences[0][0].item<long>() == 2);
}

TEST_CASE("C165: lists of sequences of 3 and 5 and their packed form both train; sizes are the first tensor's 3 and "
          "the 2 sequences") {
  // Lightning counts the rows of packed data, 8; a sequence is the sample here.
  std::vector<Tensor> const list{torch::ones({3, 1}), torch::ones({5, 1})};
  {
    OfSequences<std::vector<Tensor>> model;
    std::vector<std::vector<Tensor>> const data{list};
    cpu_trainer<OfSequences<std::vector<Tensor>>>({.max_epochs = 1}).fit(model, data);
    CHECK(model.size == 3);
  }
  {
    using Packed = torch::nn::utils::rnn::PackedSequence;
    OfSequences<Packed> model;
    std::vector<Packed> const data{torch::nn::utils::rnn::pack_sequence(list, false)};
    auto trainer = cpu_trainer<OfSequences<Packed>>({.max_epochs = 1});
    trainer.fit(model, data);
    CHECK(model.size == 2);
    CHECK(trainer.value(OfSequences<Packed>::loss).has_value());
  }
}
