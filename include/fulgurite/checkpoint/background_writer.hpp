#pragma once
// Writes the files of a run on a thread of its own, while the run goes on.

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include <fulgurite/checkpoint/archive.hpp>
#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/checkpoint/run_file.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/state.hpp>

namespace fulgurite {

// What a file of a run will hold, copied: it can be written while the run goes on.

/// A copy of the weights and of the state of a run, in memory that is used again by the next copy.
class RunImage {
 public:
  /// Copies: the arguments are those of save_run_file.
  template <class Fold>
  void take(EachWeight each_weight, Fold&& fold, std::span<Hyperparameter const> hyperparameters) {
    begin(hyperparameters);
    StateSaver saver(tree_, {}, StateSaver::Tensors::borrowed);
    fold(saver);
    copy(each_weight);
  }

  /// Writes the file, durably. Any thread may; `take` and `rename` have to wait until it returns.
  FULGURITE_COLD void write(std::filesystem::path const& path) const {
    auto metadata = run_metadata(path, tree_, hyperparameters_, {}, safetensors::longest_header, [](auto const&) {});
    auto const each = [&](TakeWeight f) {
      for (std::size_t i = 0; auto const& part : parts_)
        f(std::string_view(part.name), WeightView{part.dtype, part.shape, std::span(memory_[i++])});
    };
    write_safetensors(path, std::move(metadata), each, Checksums::written, AddFingerprint{tree_});
  }

  /// The state says `to` wherever it said `from`: a file got another name after the copy was made.
  void rename(std::filesystem::path const& from, std::filesystem::path const& to) {
    if (!from.empty()) rename(tree_, from.native(), to.native());
  }

 private:
  struct Part {
    std::string name, dtype;
    std::vector<std::int64_t> shape;
  };

  FULGURITE_COLD void begin(std::span<Hyperparameter const> hyperparameters) {
    parts_.clear();
    tree_ = {};
    hyperparameters_.assign(hyperparameters.begin(), hyperparameters.end());
  }
  FULGURITE_COLD void copy(EachWeight each_weight) {
    each_weight([&](std::string_view name, WeightView const& view) {
      refuse_state_name("a file of the run", name);
      add(std::string(name), std::string(view.dtype), view.shape, view.bytes);
    });
    copy_tensors();
  }

  FULGURITE_COLD void add(std::string name, std::string dtype, std::vector<std::int64_t> shape,
                          std::span<std::byte const> bytes) {
    if (parts_.size() == memory_.size()) memory_.emplace_back();
    memory_[parts_.size()].assign(bytes.begin(), bytes.end());
    parts_.push_back({std::move(name), std::move(dtype), std::move(shape)});
  }

  /// The tree keeps the names of its tensors, and nothing of the tensors themselves.
  FULGURITE_COLD void copy_tensors() {
    each_tensor(tree_, [&](ArchiveTensor& one) {
      one.tensor.read([&](SavedTensor::Bytes bytes) {
        add(std::string(state_tensor_prefix) + one.name, one.tensor.dtype(), one.tensor.shape(), bytes);
      });
      one.tensor = {};
    });
  }
  FULGURITE_COLD static void rename(ArchiveNode& node, std::string const& from, std::string const& to) {
    if (auto* const text = std::get_if<std::string>(&node.value); text != nullptr && *text == from) *text = to;
    each_child(node, [&](ArchiveNode& child) { rename(child, from, to); });
  }

  ArchiveNode tree_ = {};
  std::vector<Hyperparameter> hyperparameters_{};
  std::vector<Part> parts_{};
  std::vector<std::vector<std::byte>> memory_{};  ///< of each part: what came at its place before had its size
};

/// One copy of a run, and the files that are made of it: `plan` them, `start`, and when it is `done`, `wait`; `write`
/// then tells what has become of each, `remove` and `let_go` take away those that give way. Only the thread that owns
/// it calls it.
class BackgroundWriter {
 public:
  BackgroundWriter() = default;
  BackgroundWriter(BackgroundWriter const&) = delete;
  BackgroundWriter& operator=(BackgroundWriter const&) = delete;
  ~BackgroundWriter() { wait(); }

  /// What is written next. It may be changed while nothing is under way.
  RunImage& image() { return image_; }

  /// A file to be written, after those before it. `is_new`: where such a file exists by then, it stays as it is.
  void plan(std::filesystem::path file, bool is_new) { files_.push_back({std::move(file), is_new, false, nullptr}); }
  FULGURITE_COLD void start() {
    wait();
    done_.store(false, std::memory_order_relaxed);
    elsewhere([this] { work(); });
  }
  bool done() const { return done_.load(std::memory_order_acquire); }
  void wait() {
    if (thread_.joinable()) thread_.join();
  }

  /// The result of a planned file, once: returns where it was written, else throws what was thrown then. A file that
  /// was not planned, or not reached, is written now.
  FULGURITE_COLD void write(std::filesystem::path const& path) {
    for (auto& file : files_)
      if (file.path == path && std::exchange(file.tried, false)) {
        if (file.failure) std::rethrow_exception(std::exchange(file.failure, nullptr));
        return;
      }
    image_.write(path);
  }
  /// Takes away a file's name at once; says whether there was one. The space of a large file takes a while to give
  /// back, longer than its copy in memory: `let_go` has the other thread do so.
  bool remove(std::filesystem::path const& path) {
    FileDescriptor keeps(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    std::error_code ignored;
    bool const removed = std::filesystem::remove(path, ignored);
    if (removed && keeps) removed_.push_back(std::move(keeps));
    return removed;
  }
  void let_go() {
    if (removed_.empty()) return;
    wait();
    elsewhere([this]() noexcept { removed_.clear(); });
  }
  /// Forgets the files.
  void clear() { files_.clear(); }

 private:
  struct File {
    std::filesystem::path path;
    bool is_new;
    bool tried;
    std::exception_ptr failure;
  };

  template <class Work>
  void elsewhere(Work const& work) {
    // Signals are for the threads that the program knows.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      thread_ = std::thread(work);
    } catch (...) { work(); }  // there are no more threads: it takes longer, that is all
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  /// Where one cannot be written, the others are not: they would name it. One whose name is taken gets another name
  /// first.
  FULGURITE_COLD void work() noexcept {
    for (std::exception_ptr failure; auto& file : files_) {
      file.tried = true;
      file.failure = failure;
      if (failure) continue;
      try {
        NewNamesOnly const only(file.is_new);
        image_.write(file.path);
      } catch (FileExists const&) {
        file.failure = std::current_exception();
        break;
      } catch (...) { failure = file.failure = std::current_exception(); }
    }
    done_.store(true, std::memory_order_release);
  }

  RunImage image_{};
  std::vector<File> files_{};
  std::vector<FileDescriptor> removed_{};
  std::atomic<bool> done_{true};
  std::thread thread_{};
};

}  // namespace fulgurite
