// The program that crash.py kills: a fit on toy tensors whose files are real ones.
//   trainee fit FOLDER [wait]   trains, or goes on from the newest file in FOLDER, and says on stdout, a line each:
//                               from N      training begins, or goes on, at step N
//                               saved N     a file of step N was written, as far as the library says
//                               warning W   what it warned of
//                               logs DIR    its log folder
//                               hash H      of all that it came to;  rows H   of its table of logged rows
//                               error E     it ended by an Error of the library (status 3)
//                               With `wait` it first reads from stdin, so that many can start at once, and trains
//                               anew.
//   trainee look FOLDER         reads each checkpoint of the folder: whole NAME, or damaged NAME WHY
//   trainee cuts FILE COUNT     as many cut copies as the header has bytes, and COUNT cut in the data: read N, cuts M
//   trainee flips FILE COUNT    copies with one bit flipped, COUNT of them all over the file: read N, flips M
// Status 0: done; 3: an Error of the library; 4: anything else was thrown.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/callback/model_checkpoint.hpp>
#include <fulgurite/callback/on_exception_checkpoint.hpp>
#include <fulgurite/data/loader.hpp>
#include <fulgurite/logger/csv_logger.hpp>

#include "callback_run.hpp"

using namespace fulgurite;

namespace {

void say(std::string const& line) {
  // One write a line, so that a process that is killed has said all that it had to say.
  auto const text = line + "\n";
  if (::write(STDOUT_FILENO, text.data(), text.size()) < 0) std::exit(5);
}

long steps_done = 0;

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

struct Tells {
  using Stateless = ByChoice;
  void on_train_start(auto& ctx) {
    steps_done = ctx.global_step();
    say("from " + std::to_string(ctx.global_step()));
  }
  void on_before_zero_grad(auto& ctx) { steps_done = ctx.global_step(); }
  void on_train_batch_end(auto& ctx) { steps_done = ctx.global_step(); }
};

/// FNV-1a.
struct Hash {
  std::uint64_t value = 0xcbf29ce484222325;
  void bytes(std::string_view text) {
    for (char const c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  void operator()(auto number) { bytes({reinterpret_cast<char const*>(&number), sizeof number}); }
  std::string text() const { return std::to_string(value); }
};

std::string content_of(std::filesystem::path const& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

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

void look(std::filesystem::path const& folder) {
  for (auto const& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == ".tmp") say("temporary " + entry.path().string());
    if (!entry.is_regular_file() || entry.path().extension() != ".safetensors") continue;
    auto const why = damage(entry.path());
    say((why.empty() ? "whole " : "damaged ") + entry.path().filename().string() + " " + why);
  }
}

/// Writes copies of a file that are no longer what they were, and counts those that are read all the same.
template <class Each>
void count(std::filesystem::path const& file, char const* what, Each&& each) {
  auto const copy = file.string() + ".copy";
  long read = 0, made = 0;
  each(content_of(file), [&](std::string const& bytes) {
    std::ofstream(copy, std::ios::binary) << bytes;
    ++made;
    if (damage(copy).empty()) ++read;
  });
  std::filesystem::remove(copy);
  say("read " + std::to_string(read));
  say(what + (" " + std::to_string(made)));
}

void cuts(std::filesystem::path const& file, long in_data) {
  count(file, "cuts", [&](std::string const& whole, auto&& take) {
    std::uint64_t header = 0;
    std::memcpy(&header, whole.data(), sizeof header);
    auto const data = 8 + static_cast<std::size_t>(header);
    for (std::size_t length = 0; length <= data; ++length) take(whole.substr(0, length));
    std::mt19937_64 random(1);
    for (long i = 0; i != in_data; ++i) take(whole.substr(0, data + random() % (whole.size() - data)));
  });
}

void flips(std::filesystem::path const& file, long times) {
  count(file, "flips", [&](std::string const& whole, auto&& take) {
    std::mt19937_64 random(1);
    for (long i = 0; i != times; ++i) {
      auto changed = whole;
      auto const at = random() % (whole.size() * 8);
      changed[at / 8] = static_cast<char>(changed[at / 8] ^ (1 << (at % 8)));
      take(changed);
    }
  });
}

}  // namespace

int main(int count_of_words, char** given) {
  std::vector<std::string> words(given + 1, given + count_of_words);
  words.resize(3);
  try {
    bool const waits = words[2] == "wait";
    if (waits) std::cin.get();
    if (words[0] == "fit") fit(words[1], waits ? std::nullopt : std::optional(CkptPath{"last"}));
    else if (words[0] == "look") look(words[1]);
    else if (words[0] == "cuts") cuts(words[1], std::stol(words[2]));
    else if (words[0] == "flips") flips(words[1], std::stol(words[2]));
    else return 2;
  } catch (Error const& error) {
    say(std::string("error ") + error.what());
    return 3;
  } catch (std::exception const& other) {
    say(std::string("foreign ") + other.what());
    return 4;
  }
  return 0;
}
