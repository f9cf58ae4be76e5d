#pragma once
// Where the examples' handwritten digits come from: a folder, a download, or the digits that the library draws.

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <fulgurite/data/mnist_files.hpp>
#include <fulgurite/torch/digits.hpp>
#include <fulgurite/torch/mnist.hpp>

#include "arguments.hpp"

namespace example {

/// MNIST's four files, where torchvision fetches them, and how long each is.
struct RemoteFile {
  char const* name;
  std::uintmax_t bytes;
};
inline constexpr char const* mnist_mirror = "https://ossci-datasets.s3.amazonaws.com/mnist/";
inline constexpr std::array<RemoteFile, 4> mnist_remote{{{"train-images-idx3-ubyte.gz", 9912422},
                                                         {"train-labels-idx1-ubyte.gz", 28881},
                                                         {"t10k-images-idx3-ubyte.gz", 1648877},
                                                         {"t10k-labels-idx1-ubyte.gz", 4542}}};

/// Runs curl, without a shell. Its messages go to stderr as they are.
inline void fetch(std::string const& address, std::filesystem::path const& file) {
  std::array<char const*, 9> const words{"curl",     "--fail",     "--location",    "--silent", "--show-error",
                                         "--output", file.c_str(), address.c_str(), nullptr};
  pid_t const child = ::fork();
  if (child == 0) {
    ::execvp(words[0], const_cast<char* const*>(words.data()));
    ::_exit(127);
  }
  int status = -1;
  if (child < 0 || ::waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
    throw std::runtime_error("curl could not fetch " + address +
                             (WIFEXITED(status) && WEXITSTATUS(status) == 127 ? ": there is no curl here; install it"
                                                                              : ": is this machine on the network?") +
                             " Or put MNIST's four files into " + file.parent_path().string() +
                             " yourself; without them and without --download the digits are drawn");
}

/// Fetches what is not there yet, then reads all of it: lengths, headers and labels are MNIST's, or an exception says
/// which are not.
inline void download_mnist(std::filesystem::path const& folder) {
  std::filesystem::create_directories(folder);
  for (auto const& [name, bytes] : mnist_remote) {
    auto const file = folder / name;
    if (std::filesystem::exists(file) && std::filesystem::file_size(file) == bytes) continue;
    std::fprintf(stderr, "fetching %s%s\n", mnist_mirror, name);
    auto const part = folder / (std::string(name) + ".part");
    fetch(mnist_mirror + std::string(name), part);
    if (auto const found = std::filesystem::file_size(part); found != bytes)
      throw std::runtime_error(part.string() + " has " + std::to_string(found) + " bytes, expected were " +
                               std::to_string(bytes) + ": that is not MNIST");
    std::filesystem::rename(part, file);
  }
  for (auto const& [part, count] : {std::pair<char const*, std::size_t>{"train", 60000}, {"t10k", 10000}})
    if (auto const found = fulgurite::data::read_mnist(*fulgurite::data::mnist_files(folder, part)).size();
        found != count)
      throw std::runtime_error(folder.string() + ": " + part + " holds " + std::to_string(found) +
                               " images, expected were " + std::to_string(count));
}

/// --data and --download. Without them MNIST is looked for in $FULGURITE_DATA, data/mnist and ../shared/data/mnist.
class DigitSource {
 public:
  explicit DigitSource(Arguments& arguments)
      : folder_(arguments.value<std::string>(
            "--data", "", "folder with MNIST's files; else $FULGURITE_DATA, data/mnist, ../shared/data/mnist")),
        download_(arguments.flag("--download", "fetch MNIST into --data, or data/mnist, with curl (11.6 MB)")) {}

  /// Says in one line what it found. A folder that was named must hold MNIST; where none was, the digits are drawn.
  fulgurite::data::TensorModule<> load(fulgurite::data::MnistOptions options) const {
    using namespace fulgurite;
    if (download_) download_mnist(folder_.empty() ? "data/mnist" : folder_);
    std::vector<std::filesystem::path> places{folder_};
    if (folder_.empty()) {
      places = {"data/mnist", "../shared/data/mnist"};
      if (char const* named = std::getenv("FULGURITE_DATA")) places.insert(places.begin(), named);
    }
    auto const found = folder_.empty() ? data::find_mnist(places) : std::optional<std::filesystem::path>(folder_);
    auto module = found ? data::mnist(*found, options)
                        : data::digits({.batch_size = options.batch_size,
                                        .shuffle = options.shuffle,
                                        .seed = options.seed,
                                        .drop_last = options.drop_last});
    long const train = module.train_dataloader().layout().samples,
               validation = module.val_dataloader().layout().samples;
    if (found)
      std::fprintf(stderr, "MNIST from %s: %ld images to train on, %ld to validate\n", found->c_str(), train,
                   validation);
    else
      std::fprintf(stderr,
                   "no MNIST found (--data, --download): %ld digits drawn by the program to train on, %ld to validate; "
                   "they are easier\n",
                   train, validation);
    return module;
  }

 private:
  std::filesystem::path folder_;
  bool download_;
};

}  // namespace example
