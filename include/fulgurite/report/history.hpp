#pragma once
// What a run has logged, as curves: kept short however long the run is.

#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fulgurite/core/body.hpp>
#include <fulgurite/report/plot.hpp>

namespace fulgurite::report {

/// Curves by name, in the order in which their first values came. A curve that has `most` points is thinned: two
/// neighbours become their mean, and from then on so many values one point.
class History {
 public:
  explicit History(std::size_t most = 2000) : most_(most) {}

  void add(std::string_view name, double x, double y);

  /// A curve of each name, with the values that have not become a point yet as its last one.
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
    std::size_t each = 1;          ///< values a point
    std::vector<Point> waiting{};  ///< for their point
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

/// Its cells row by row, each with its values over the steps.
struct Matrix {
  std::string name;
  std::size_t size = 0;  ///< rows, and columns
  std::vector<Curve> cells{};
};

namespace matrices {

struct Cell {
  std::string name;  ///< of the matrix
  std::size_t row = 0, column = 0;
};

/// The whole number behind the last point, which is taken off with it. "07" is a text, as no matrix writes it.
std::optional<std::size_t> take_number(std::string_view& name);
/// "val/pairs.2.0" is one; with several loaders the loader's name stands behind it, as "val/pairs.2.0/night".
std::optional<Cell> cell_of(std::string_view label);

}  // namespace matrices

/// Takes the matrices out of `curves`: as many plots as cells would hide all others. A part of one is none.
std::vector<Matrix> take_matrices(std::vector<Curve>& curves);

// Many curves as several plots: what belongs together by its name is in one, such as train/loss and val/loss.

/// What a metric is of, without the data that it was measured on: "loss" of "val/loss", "train_loss" and
/// "train/loss_step". A name that says nothing else stays as it is. Of the parts of a metric it is the metric: "range"
/// of "val/range.min", "f1" of "val/f1.3".
std::string subject_of(std::string_view name);

/// So many curves have each a colour and a dash of their own.
inline constexpr std::size_t most_curves = 12;

/// A plot for each subject, in the order in which they come; a further one where it would have too many curves. The
/// cells of a matrix are left out: nobody can look at a hundred of them.
std::vector<Plot> panels(std::vector<Curve> curves, Axis const& x = {.name = "step"});

/// The plots side by side, as one SVG file: `columns` in a row.
std::string svg_of(std::vector<Plot> const& plots, std::string_view title, std::size_t columns = 2);

}  // namespace fulgurite::report

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/report/history.ipp>
#endif
