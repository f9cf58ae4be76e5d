#pragma once
// Writes the files of a run on a separate thread, while the run continues.

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

// A copy of everything that a run's file will hold: it can be written while the run continues.

/// A copy of the weights and of the state of a run. The next copy uses its memory again.
class RunImage {
 public:
  RunImage();
  FULGURITE_MOVES(RunImage);

  /// Makes the copy; the arguments are those of save_run_file.
  void take(EachWeight each_weight, FunctionRef<void(StateSaver&)> fold,
            std::span<Hyperparameter const> hyperparameters);

  /// Writes the file, durably. Any thread may call it; `take` and `rename` must not be called until it returns.
  void write(std::filesystem::path const& path) const;

  /// Replaces `from` by `to` in the state: a file got another name after the copy was made.
  void rename(std::filesystem::path const& from, std::filesystem::path const& to);

 private:
  struct Part {
    std::string name, dtype;
    std::vector<std::int64_t> shape;
  };

  void begin(std::span<Hyperparameter const> hyperparameters);
  void copy(EachWeight each_weight);

  void add(std::string name, std::string dtype, std::vector<std::int64_t> shape, std::span<std::byte const> bytes);

  /// The tree keeps only the names of its tensors.
  void copy_tensors();
  static void rename(ArchiveNode& node, std::string const& from, std::string const& to);

  ArchiveNode tree_;
  std::vector<Hyperparameter> hyperparameters_;
  std::vector<Part> parts_;
  std::vector<std::vector<std::byte>>
      memory_;  ///< memory of each part; kept from the previous copy if the size is the same
};

/// One copy of a run, and the files that are written from it. Call `plan` for each file, then `start`, and `wait` when
/// it is `done`. Afterwards `write` gives the result of each file, and `remove` and `let_go` delete the files that they
/// displace. Only the owning thread may call these.
class BackgroundWriter {
 public:
  BackgroundWriter();
  BackgroundWriter(BackgroundWriter const&) = delete;
  BackgroundWriter& operator=(BackgroundWriter const&) = delete;
  ~BackgroundWriter();

  /// The copy that is written next. It may be changed while no write is in progress.
  RunImage& image() { return image_; }

  /// Adds a file to be written, after the earlier ones. `is_new`: if such a file exists by then, it is left unchanged.
  void plan(std::filesystem::path file, bool is_new);
  void start();
  bool done() const { return done_.load(std::memory_order_acquire); }
  void wait();

  /// The result of a planned file, once: returns if it was written, and otherwise throws what was thrown then. A file
  /// that was not planned, or not reached, is written now.
  void write(std::filesystem::path const& path);
  /// Removes a file's name at once; returns true if the file existed. Freeing the space of a large file takes longer
  /// than copying it in memory: `let_go` makes the other thread do that.
  bool remove(std::filesystem::path const& path);
  void let_go();
  /// Clears the list of files.
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

  /// If a file cannot be written, the later ones are not written either: they would refer to it. A file whose name is
  /// taken first gets another name.
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
