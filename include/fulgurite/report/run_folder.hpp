#pragma once
// The contents of a run's folder: its metrics, hyper-parameters, notes, and the times that a profiler has written.

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/report/plot.hpp>

namespace fulgurite::report {

// Shared with the other readers of a run's names and files; not for programs.

namespace run_folder {

/// The number that a text is, as files of runs have it; nullopt if it is none.
std::optional<double> number_of(std::string_view text);

}  // namespace run_folder

// The values that a run has logged, as curves of limited length, however long the run is.

/// Curves by name, in the order of their first values. A curve that reaches `most` points is thinned: each two
/// neighbours are replaced by their mean, and from then on a point is the mean of twice as many values.
class History {
 public:
  explicit History(std::size_t most = 2000) : most_(most) {}

  void add(std::string_view name, double x, double y);

  /// A curve for each name. Its last point is the mean of the values that do not fill a point yet.
  std::vector<Curve> curves() const;
  bool empty() const { return series_.empty(); }
  void clear() { series_.clear(); }

  void state(auto& archive);

 private:
  struct Point {
    double x = 0, y = 0;
  };
  struct Series {
    std::string name{};
    std::vector<double> x{}, y{};
    std::size_t each = 1;          ///< values in a point
    std::vector<Point> waiting{};  ///< values for the next point
  };

  static Point mean_of(std::vector<Point> const& points);
  static void thin(Series& series);
  void load(std::vector<std::string> const& names, std::vector<std::size_t> const& each,
            std::vector<std::size_t> const& points, std::vector<std::size_t> const& waiting,
            std::vector<double> const& values);

  std::size_t most_;
  std::vector<Series> series_{};
};

// Curves that are the cells of a square matrix, as those of metric::ConfusionMatrix: val/pairs.0.0, val/pairs.0.1, ...

/// The cells of a matrix row by row, each with its values over the steps.
struct Matrix {
  std::string name;
  std::size_t size = 0;  ///< number of rows, and of columns
  std::vector<Curve> cells{};
};

/// Removes the matrices from `curves` and returns them: a plot for each cell would hide all others. An incomplete
/// matrix is not one.
std::vector<Matrix> take_matrices(std::vector<Curve>& curves);

// Groups many curves into several plots by their names: train/loss and val/loss share one.

/// The name of a metric without the data on which it was measured: "loss" for "val/loss", "train_loss" and
/// "train/loss_step". A name with no other part is unchanged. For parts of a metric it is the metric: "range" for
/// "val/range.min", "f1" for "val/f1.3".
std::string subject_of(std::string_view name);

/// The number of curves that have different colours and dashes.
inline constexpr std::size_t most_curves = 12;

/// A plot for each subject, in the order of first occurrence, and further ones for subjects with too many curves. The
/// cells of a matrix are left out: no one can read a hundred of them.
std::vector<Plot> panels(std::vector<Curve> curves, Axis const& x = {.name = "step"});

/// Calls f(tag, step, value) for each number in the bytes of a TensorBoard event file, of this library or of another
/// program, in order. It stops at a record that is not complete, as the last one of a running program may be, or whose
/// checksum is wrong.
void each_event_scalar(std::string_view file, FunctionRef<void(std::string_view, double, double)> f);

/// A run as its loggers have written it, possibly while it is still being written.
struct RunFolder {
  std::filesystem::path path{};
  std::vector<Curve> curves{};  ///< of each metric by step, in the order of the table's columns
  std::vector<std::pair<std::string, std::string>> hyperparameters{};
  std::vector<std::pair<std::string, std::string>> options{};  ///< of the trainer, by name
  /// Texts in the same folder: describe.txt, system.txt, config.toml, tables of profilers; by file name.
  std::vector<std::pair<std::string, std::string>> notes{};
  /// From a SimpleProfiler with a filename: the rows of its .csv, without the header.
  std::vector<std::vector<std::string>> times{};
};

/// Reads a run's folder: its metrics, from one logger of this library, hparams.yaml, and texts. Throws
/// [fulgurite.report.no_run] if no logger has written to it.
RunFolder read_run_folder(std::filesystem::path const& folder);

/// Reads the runs in these folders. A folder that is not a run's stands for its subfolders that are, version_2 before
/// version_10. A run that is named twice is read once.
std::vector<RunFolder> read_run_folders(std::vector<std::filesystem::path> const& folders);

}  // namespace fulgurite::report

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/report/run_folder.ipp>
#endif
