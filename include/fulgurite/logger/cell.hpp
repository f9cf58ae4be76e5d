#pragma once
// One value of a row, as loggers write it.

#include <string_view>

namespace fulgurite::logger {

/// A cell of a row, by the name of its column.
struct Cell {
  std::string_view column;
  double value;
  bool whole = false;  ///< written as an integer
};

}  // namespace fulgurite::logger
