// Files that another thread writes while LibTorch trains on: the same bytes as those that the training thread writes.

#include "fixtures.hpp"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <utility>

#include <fulgurite/fulgurite.hpp>
#include <fulgurite/torch/capture/captured.hpp>

using namespace fulgurite;
namespace F = torch::nn::functional;
namespace fs = std::filesystem;

namespace {

template <bool Ours>
struct Net : torch::nn::Module {
  static constexpr Metric<"loss"> loss{.on_step = Report::yes, .on_epoch = Report::yes};
  using Metrics = MetricList<loss>;
  torch::nn::Linear in = register_module("in", torch::nn::Linear(6, 300));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(300));
  torch::nn::Dropout drop = register_module("drop", torch::nn::Dropout(0.3));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(300, 3));

  torch::Tensor training_step(auto const& batch, auto& ctx) {
    auto const hidden = drop->forward(torch::relu(norm->forward(in->forward(batch.data))));
    auto value = F::cross_entropy(out->forward(hidden), batch.target);
    ctx.log(loss, value);
    return value;
  }
  auto configure_optimizers() {
    if constexpr (Ours) return optim::AdamW(*this, {.lr = 0.02});
    else return torch::optim::AdamW(this->parameters(), torch::optim::AdamWOptions(0.02));
  }
};

TrainerOptions::Clock::time_point stands_still() { return {}; }

/// The content of all files that a fit of six steps leaves, one for each step.
template <bool Ours>
std::map<std::string, std::string> files_of(auto strategy, bool in_background, fs::path const& folder) {
  torch::manual_seed(3);
  Net<Ours> net;
  data::TensorLoader loader{torch::randn({24, 6}), torch::arange(24) % 3, {.batch_size = 8, .shuffle = true}};
  auto trainer = make_trainer<Net<Ours>>(
      TrainerOptions{.max_epochs = 2, .save_in_background = in_background, .now = &stands_still}, std::move(strategy),
      Float32{}, Automatic{}, EMAWeightAveraging{},
      ModelCheckpoint{{.dirpath = folder,
                       .filename = "{step}",
                       .save_top_k = -1,
                       .save_last = SaveLast::copy,
                       .every_n_train_steps = 1}},
      NoDefaults{});
  trainer.fit(net, loader);
  std::map<std::string, std::string> all;
  for (auto const& file : fs::directory_iterator(folder)) {
    std::ifstream in(file.path(), std::ios::binary);
    all[file.path().filename().string()] = {std::istreambuf_iterator<char>(in), {}};
  }
  fs::remove_all(folder);
  return all;
}

template <bool Ours>
void check_same(auto const& strategy) {
  auto const folder = fs::temp_directory_path() / ("fulgurite-background-" + std::to_string(::getpid()));
  auto const expected = files_of<Ours>(strategy(), false, folder);
  CHECK(expected.size() == 7);
  auto const late = files_of<Ours>(strategy(), true, folder);
  REQUIRE(late.size() == expected.size());
  for (auto const& [name, bytes] : expected) {
    INFO(name);
    CHECK(bytes.size() > 10'000);
    CHECK(late.at(name) == bytes);
  }
}

}  // namespace

TEST_CASE("background: the files of a LibTorch run are those of the training thread, byte for byte", "[background]") {
  check_same<true>([] { return SingleDevice{cpu}; });
  check_same<false>([] { return SingleDevice{cpu}; });
}

TEST_CASE("background: so are those of a captured run, whose steps write into the same memory", "[background]") {
  check_same<true>([] { return Captured{SingleDevice{cpu}}; });
}
