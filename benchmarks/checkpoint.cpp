// What a checkpoint costs the thread that trains (P14): from the end of a batch after which one is written to the start
// of the next.

#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <fulgurite/callback/model_checkpoint.hpp>
#include <fulgurite/loop/trainer.hpp>
#include <fulgurite/torch/device/backend.hpp>
#include <fulgurite/torch/device/single_device.hpp>
#include <fulgurite/torch/weights/checkpoint_file.hpp>

#include "cycle.hpp"
#include "our_set.hpp"

namespace bench {

namespace {

/// 784-1024-1024-10: 1.86 million weights.
struct Wide : nn::Module {
  nn::Linear one = register_module("one", nn::Linear(784, 1024)), two = register_module("two", nn::Linear(1024, 1024)),
             three = register_module("three", nn::Linear(1024, 10));
  torch::Tensor training_step(Batch const& b) {
    return F::cross_entropy(three(torch::relu(two(torch::relu(one(b.data))))), b.target);
  }
  auto configure_optimizers() { return Ours::adam(parameters()); }
};

/// Milliseconds between batches.
struct Between {
  using Stateless = fulgurite::ByChoice;
  std::vector<double>* gaps;
  Stopwatch::Clock::time_point ended = Stopwatch::Clock::now();
  void on_train_batch_end() { ended = Stopwatch::Clock::now(); }
  void on_train_batch_start() { gaps->push_back(Stopwatch::microseconds(ended, Stopwatch::Clock::now()) / 1000); }
};

double milliseconds(auto&& action) {
  auto const began = Stopwatch::Clock::now();
  action();
  return Stopwatch::microseconds(began, Stopwatch::Clock::now()) / 1000;
}

void write_plainly(std::filesystem::path const& file, std::vector<char> const& bytes) {
  int const to = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  for (std::size_t at = 0; at < bytes.size();) {
    auto const written = ::write(to, bytes.data() + at, bytes.size() - at);
    if (written <= 0) break;
    at += static_cast<std::size_t>(written);
  }
  ::fsync(to);
  ::close(to);
}

}  // namespace

CheckpointCost measure_checkpoint(int checkpoints) {
  using namespace fulgurite;
  auto const folder = std::filesystem::temp_directory_path() / ("fulgurite-bench-" + std::to_string(::getpid()));
  CheckpointCost cost;
  std::vector<double> gaps;
  torch::manual_seed(1);
  Wide model;
  std::vector<Batch> batches;
  for (int i = 0; i != 4; ++i) batches.push_back({torch::randn({8, 784}), torch::randint(10, {8}, torch::kLong)});
  constexpr long every = 3;
  Cycle cycle(batches, every * checkpoints + 1);
  auto trainer = make_trainer<Wide>(TrainerOptions{.max_epochs = 1}, SingleDevice{cpu}, Float32{}, Automatic{},
                                    Between{&gaps}, ModelCheckpoint{{.dirpath = folder, .every_n_train_steps = every}});
  trainer.fit(model, cycle);
  for (std::size_t i = every; i < gaps.size(); i += every) cost.stalls.push_back(gaps[i]);
  std::uintmax_t size = 0;
  for (auto const& file : std::filesystem::directory_iterator(folder)) size = std::max(size, file.file_size());
  cost.megabytes = static_cast<double>(size) / 1e6;

  std::vector<char> const from(size, 1);
  std::vector<char> to(size, 2);
  for (int i = 0; i != checkpoints; ++i) {
    cost.copies.push_back(milliseconds([&] {
      std::memcpy(to.data(), from.data(), size);
      asm volatile("" : : "r"(to.data()) : "memory");
    }));
    cost.writes.push_back(milliseconds([&] { write_plainly(folder / "plain", from); }));
  }
  std::filesystem::remove_all(folder);
  return cost;
}

}  // namespace bench
