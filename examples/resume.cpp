// Trains, kills itself in the middle of an epoch, and resumes from the newest file.
//   resume
// Prints a hash of the weights beside that of a run that was never stopped: they are equal in every bit.

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>

#include <fulgurite/fulgurite.hpp>

#include "helpers/arguments.hpp"

namespace nn = torch::nn;
namespace F = torch::nn::functional;
using namespace fulgurite;

struct Spiral : nn::Module {
  static constexpr Metric<"train/loss"> train_loss{};
  using Metrics = MetricList<train_loss>;

  nn::Sequential body = register_module("body", nn::Sequential(nn::Linear(2, 64), nn::ReLU(), nn::Dropout(0.1),
                                                               nn::Linear(64, 64), nn::ReLU(), nn::Linear(64, 2)));

  torch::Tensor training_step(auto const& batch, auto& ctx) {
    auto loss = F::cross_entropy(body->forward(batch.data), batch.target);
    ctx.log(train_loss, loss);
    return loss;
  }
  auto configure_optimizers() { return torch::optim::AdamW(parameters(), torch::optim::AdamWOptions(3e-3)); }
};

/// Ends the process at a step, as a power cut would: nothing is flushed, no destructor runs.
struct DiesAt {
  using Hooks = Implements<hook::on_train_batch_end>;
  using Stateless = ByChoice;
  long step;
  void on_train_batch_end(auto& ctx) {
    if (ctx.global_step() == step) std::raise(SIGKILL);
  }
};

/// Two spirals, 1024 points.
data::TensorLoader<> spirals() {
  auto const angle = torch::linspace(0.5, 9.0, 512);
  auto const arm = torch::stack({angle * angle.cos(), angle * angle.sin()}, 1) / 9.0;
  return data::TensorLoader{torch::cat({arm, -arm}),
                            torch::cat({torch::zeros(512), torch::ones(512)}).to(torch::kLong),
                            {.batch_size = 32, .shuffle = true, .seed = 5}};
}

/// Trains epochs of 16 steps, from a file or from the beginning, and returns a hash of the weights.
std::uint64_t train(std::filesystem::path const& folder, int epochs, long dies_at, std::optional<CkptPath> from) {
  torch::manual_seed(1);
  Spiral net;
  auto trainer = make_trainer<Spiral>(TrainerOptions{.max_epochs = epochs}, SingleDevice{cpu}, NoDefaults{},
                                      Automatic{.accumulate_grad_batches = 2},
                                      ModelCheckpoint{{.dirpath = folder, .save_top_k = -1, .every_n_train_steps = 7}},
                                      DiesAt{dies_at}, Signals{{.dirpath = folder}});
  trainer.fit(net, spirals(), from);
  std::uint64_t hash = 1469598103934665603ULL;  // FNV-1a
  for (auto const& parameter : net.parameters()) {
    auto const* bytes = static_cast<unsigned char const*>(parameter.const_data_ptr());
    for (std::size_t i = 0; i != parameter.nbytes(); ++i) hash = (hash ^ bytes[i]) * 1099511628211ULL;
  }
  return hash;
}

int main(int argc, char** argv) try {
  example::Arguments arguments(argc, argv, "Trains, kills itself, resumes, and compares the weights.");
  bool const fast = arguments.flag("--fast", "2 epochs in place of 5");
  arguments.done();
  int const epochs = fast ? 2 : 5, dies_at = 8 * epochs;
  auto const folder = std::filesystem::temp_directory_path() / ("fulgurite-resume-" + std::to_string(::getpid()));
  pid_t const child = ::fork();
  if (child == 0) {
    train(folder / "broken", epochs, dies_at, std::nullopt);
    return 1;  // it is dead by now
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  std::printf("a run of %d steps was killed at step %d (signal %d)\n", 16 * epochs, dies_at,
              WIFSIGNALED(status) ? WTERMSIG(status) : 0);
  auto const resumed = train(folder / "broken", epochs, -1, CkptPath{"last"});
  auto const unbroken = train(folder / "whole", epochs, -1, std::nullopt);
  std::filesystem::remove_all(folder);
  std::printf("weights of the run that resumed:    %016llx\n", static_cast<unsigned long long>(resumed));
  std::printf("weights of one that never stopped: %016llx\n", static_cast<unsigned long long>(unbroken));
  std::printf(resumed == unbroken ? "equal in every bit\n" : "NOT EQUAL\n");
  return resumed == unbroken ? 0 : 1;
} catch (std::exception const& error) { return example::failed(error); }
