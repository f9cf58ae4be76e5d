#pragma once
// The values that a run has logged, as curves of limited length, however long the run is.

#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fulgurite/core/body.hpp>
#include <fulgurite/report/plot.hpp>

namespace fulgurite::report {

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

namespace matrices {

struct Cell {
  std::string name;  ///< name of the matrix
  std::size_t row = 0, column = 0;
};

/// Removes the number after the last point from `name`, together with the point, and returns it. "07" is not a number,
/// since no matrix writes it.
std::optional<std::size_t> take_number(std::string_view& name);
/// The cell that a label names, such as "val/pairs.2.0"; with several loaders the loader's name follows, as in
/// "val/pairs.2.0/night".
std::optional<Cell> cell_of(std::string_view label);

}  // namespace matrices

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

/// The plots as one SVG file, with `columns` plots in a row.
std::string svg_of(std::vector<Plot> const& plots, std::string_view title, std::size_t columns = 2);

}  // namespace fulgurite::report

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/report/history.ipp>
#endif
