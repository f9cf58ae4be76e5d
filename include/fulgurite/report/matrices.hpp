#pragma once
// Curves that are the cells of a square matrix, as those of metric::ConfusionMatrix: val/pairs.0.0, val/pairs.0.1, ...

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/report/plot.hpp>

namespace fulgurite::report {

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
inline std::optional<std::size_t> take_number(std::string_view& name) {
  auto const point = name.rfind('.');
  if (point == std::string_view::npos || point == 0) return std::nullopt;
  auto const digits = name.substr(point + 1);
  if (digits.size() > 6) return std::nullopt;  // no matrix has so many rows, and counts of cells stay numbers
  std::size_t number = 0;
  auto const [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size() || digits != std::to_string(number))
    return std::nullopt;
  name = name.substr(0, point);
  return number;
}
/// "val/pairs.2.0" is one; with several loaders the loader's name stands behind it, as "val/pairs.2.0/night".
FULGURITE_COLD std::optional<Cell> cell_of(std::string_view label) {
  for (auto const end : {label.size(), label.rfind('/')}) {
    if (end == std::string_view::npos) continue;
    auto name = label.substr(0, end);
    auto const column = take_number(name), row = column ? take_number(name) : std::nullopt;
    if (row) return Cell{std::string(name).append(label.substr(end)), *row, *column};
  }
  return std::nullopt;
}

}  // namespace matrices

/// Takes the matrices out of `curves`: as many plots as cells would hide all others. A part of one is none.
FULGURITE_COLD std::vector<Matrix> take_matrices(std::vector<Curve>& curves) {
  std::vector<std::optional<matrices::Cell>> cells;
  std::vector<Matrix> all;
  for (auto const& curve : curves) {
    cells.push_back(matrices::cell_of(curve.label));
    if (!cells.back()) continue;
    auto at = std::ranges::find(all, cells.back()->name, &Matrix::name);
    if (at == all.end()) at = all.insert(all.end(), Matrix{.name = cells.back()->name});
    at->size = std::max({at->size, cells.back()->row + 1, cells.back()->column + 1});
    at->cells.emplace_back();  // as many as there are
  }
  // The size is compared first: of a single name with a large number in it there is no square.
  std::erase_if(all, [](Matrix const& one) {
    return one.size < 2 || one.size > one.cells.size() || one.size * one.size != one.cells.size();
  });
  std::vector<Curve> rest;
  for (std::size_t i = 0; i != curves.size(); ++i) {
    auto const at = cells[i] ? std::ranges::find(all, cells[i]->name, &Matrix::name) : all.end();
    if (at == all.end()) rest.push_back(std::move(curves[i]));
    else at->cells[cells[i]->row * at->size + cells[i]->column] = std::move(curves[i]);
  }
  curves = std::move(rest);
  return all;
}

}  // namespace fulgurite::report
