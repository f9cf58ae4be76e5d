#pragma once
// Writes the files of a run on a thread of its own, while the run goes on.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/checkpoint/run_file.hpp>
#include <fulgurite/core/archive.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/core/state.hpp>

namespace fulgurite {

// What a file of a run will hold, copied: it can be written while the run goes on.

/// A copy of the weights and of the state of a run, in memory that is used again by the next copy.
class RunImage {
 public:
  RunImage();
  FULGURITE_MOVES(RunImage);

  /// Copies: the arguments are those of save_run_file.
  void take(EachWeight each_weight, FunctionRef<void(StateSaver&)> fold,
            std::span<Hyperparameter const> hyperparameters);

  /// Writes the file, durably. Any thread may; `take` and `rename` have to wait until it returns.
  void write(std::filesystem::path const& path) const;

  /// The state says `to` wherever it said `from`: a file got another name after the copy was made.
  void rename(std::filesystem::path const& from, std::filesystem::path const& to);

 private:
  struct Part {
    std::string name, dtype;
    std::vector<std::int64_t> shape;
  };

  void begin(std::span<Hyperparameter const> hyperparameters);
  void copy(EachWeight each_weight);

  void add(std::string name, std::string dtype, std::vector<std::int64_t> shape, std::span<std::byte const> bytes);

  /// The tree keeps the names of its tensors, and nothing of the tensors themselves.
  void copy_tensors();
  static void rename(ArchiveNode& node, std::string const& from, std::string const& to);

  ArchiveNode tree_;
  std::vector<Hyperparameter> hyperparameters_;
  std::vector<Part> parts_;
  std::vector<std::vector<std::byte>> memory_;  ///< of each part: what came at its place before had its size
};

/// One copy of a run, and the files that are made of it: `plan` them, `start`, and when it is `done`, `wait`; `write`
/// then tells what has become of each, `remove` and `let_go` take away those that give way. Only the thread that owns
/// it calls it.
class BackgroundWriter {
 public:
  BackgroundWriter();
  BackgroundWriter(BackgroundWriter const&) = delete;
  BackgroundWriter& operator=(BackgroundWriter const&) = delete;
  ~BackgroundWriter();

  /// What is written next. It may be changed while nothing is under way.
  RunImage& image() { return image_; }

  /// A file to be written, after those before it. `is_new`: where such a file exists by then, it stays as it is.
  void plan(std::filesystem::path file, bool is_new);
  void start();
  bool done() const { return done_.load(std::memory_order_acquire); }
  void wait();

  /// The result of a planned file, once: returns where it was written, else throws what was thrown then. A file that
  /// was not planned, or not reached, is written now.
  void write(std::filesystem::path const& path);
  /// Takes away a file's name at once; says whether there was one. The space of a large file takes a while to give
  /// back, longer than its copy in memory: `let_go` has the other thread do so.
  bool remove(std::filesystem::path const& path);
  void let_go();
  /// Forgets the files.
  void clear();

 private:
  struct File {
    std::filesystem::path path;
    bool is_new;
    bool tried;
    std::exception_ptr failure;
  };

  template <class Work>
  void elsewhere(Work const& work);

  /// Where one cannot be written, the others are not: they would name it. One whose name is taken gets another name
  /// first.
  void work() noexcept;

  RunImage image_;
  std::vector<File> files_;
  std::vector<FileDescriptor> removed_;
  std::atomic<bool> done_{true};
  std::thread thread_{};
};

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/checkpoint/background_writer.ipp>
#endif
