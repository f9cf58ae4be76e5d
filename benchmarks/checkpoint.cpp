// What a checkpoint costs the thread that trains (P14), where it writes the file itself and where another thread does:
// from the end of a batch to the start of the next.

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <thread>
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

std::vector<std::filesystem::path> checkpoints_in(std::filesystem::path const& folder) {
  std::vector<std::filesystem::path> all;
  std::error_code none;
  for (auto const& file : std::filesystem::directory_iterator(folder, none))
    if (file.path().extension() == ".safetensors") all.push_back(file.path());
  return all;
}

/// Milliseconds between batches, added up from one file to the next: what is done when another thread has written a
/// file belongs to it. The file before is on the disk before the next one is due, as in programs whose files are
/// further apart.
struct Between {
  using Stateless = fulgurite::ByChoice;
  std::vector<double>* stalls;
  std::filesystem::path folder;
  long every;
  long batch = 0;
  std::vector<std::filesystem::path> before = {};
  Stopwatch::Clock::time_point ended = Stopwatch::Clock::now();
  void on_train_batch_end() { ended = Stopwatch::Clock::now(); }
  void on_train_batch_start() {
    auto const gap = Stopwatch::microseconds(ended, Stopwatch::Clock::now()) / 1000;
    if (batch % every == 0) stalls->push_back(0);
    stalls->back() += gap;
    if (batch > every && batch % every == 1) {
      while (checkpoints_in(folder) == before) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      before = checkpoints_in(folder);
    }
    ++batch;
  }
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

namespace {

/// Trains until so many files are written, and returns what each one cost the thread that trains.
std::vector<double> stalls_of(int checkpoints, bool in_background, std::filesystem::path const& folder) {
  using namespace fulgurite;
  std::vector<double> stalls;
  torch::manual_seed(1);
  Wide model;
  std::vector<Batch> batches;
  for (int i = 0; i != 4; ++i) batches.push_back({torch::randn({8, 784}), torch::randint(10, {8}, torch::kLong)});
  constexpr long every = 6;
  Cycle cycle(batches, every * (checkpoints + 1));
  auto trainer = make_trainer<Wide>(TrainerOptions{.max_epochs = 1, .save_in_background = in_background},
                                    SingleDevice{cpu}, Float32{}, Automatic{}, Between{&stalls, folder, every},
                                    ModelCheckpoint{{.dirpath = folder, .every_n_train_steps = every}}, NoDefaults{});
  trainer.fit(model, cycle);
  stalls.erase(stalls.begin());  // before the first file
  return stalls;
}

}  // namespace

CheckpointCost measure_checkpoint(int checkpoints) {
  auto const folder = std::filesystem::temp_directory_path() / ("fulgurite-bench-" + std::to_string(::getpid()));
  CheckpointCost cost;
  cost.stalls = stalls_of(checkpoints, false, folder);
  std::uintmax_t size = 0;
  for (auto const& file : checkpoints_in(folder)) size = std::max(size, std::filesystem::file_size(file));
  std::filesystem::remove_all(folder);
  cost.background_stalls = stalls_of(checkpoints, true, folder);
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
