#pragma once
// What is known about the place where output goes: whether it is a person's terminal, and how wide it is.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fulgurite/core/body.hpp>

namespace fulgurite::report {

/// Whether the stream is a terminal, to which control codes may be written: one that says TERM=dumb is none.
bool is_terminal(std::FILE* stream);

/// The width of the terminal behind the stream, in columns; 0 where it is not known.
int terminal_columns(std::FILE* stream);

/// The width to keep to: the one that is asked for, else the terminal's, also of one that says TERM=dumb. 0, no limit:
/// in a file, or where it is not known.
std::size_t text_columns(std::FILE* stream, int asked);

/// Its height in lines; 0 where it is not known.
int terminal_lines(std::FILE* stream);

/// The width of UTF-8 text, counting one column for each code point: right for our own output and for Latin names.
std::size_t display_width(std::string_view text);

/// The beginning of the text that fits into `columns` columns; no character is cut in half.
std::string_view clipped(std::string_view text, std::size_t columns);

// Text that is broken between words, so that a terminal does not break it inside of one.

/// The lines of a text, none wider than `columns` unless one word is, such as a path. 0: one line.
std::vector<std::string> wrapped_lines(std::string_view text, std::size_t columns);
/// The same lines as one text; each ends with a newline.
std::string wrapped(std::string_view text, std::size_t columns);

// Columns as wide as their widest cell, a rule above and below the rows.

/// What is left of a cell in a table that has to be narrower.
enum class Clip : std::uint8_t { never, keeps_beginning, keeps_end };

/// `TextTable{{{.title = "Name"}, {.title = "Params"}}}`, then `add({"body", "203 K"})` for each row, then `text()`.
class TextTable {
 public:
  struct Column {
    std::string title;
    Clip clip = Clip::never;
    int goes = 0;  ///< when it is left out of a table that would be too wide: 1 first, 2 then, and so on; 0 never
  };

  explicit TextTable(std::vector<Column> columns);

  /// Adds a row. Cells that are missing stay empty, and those beyond the last column are dropped.
  void add(std::vector<std::string> cells);

  /// The table; it ends with the lower rule and a newline. At most `most` columns wide, as far as that can be had: what
  /// goes first goes, then cells are clipped, those that keep their ends least, then the other columns go that may. 0:
  /// as wide as need be.
  std::string text(std::size_t most = 0) const;

 private:
  static std::size_t width(std::vector<std::size_t> const& widths);
  static constexpr std::size_t least = 8;      ///< of a cell that is clipped
  static constexpr std::size_t readable = 24;  ///< of one that keeps its end, which tells it from others
  static constexpr int last_to_go = 1000;

  /// Takes from the widest of the columns that may be clipped until the table has `most`, or as far as may be.
  void clip(std::vector<std::size_t>& widths, std::size_t most, std::size_t least_of_ends) const;
  /// Leaves out the column that goes first among those up to `goes`, of several the last.
  bool leave_out(int goes);
  static std::string fitted(std::string const& cell, std::size_t width, Clip clip);
  std::string line(std::vector<std::string> const& cells) const;

  std::vector<Column> columns_;
  std::vector<std::size_t> widths_{};
  std::vector<std::vector<std::string>> rows_{};
};

// A table that is given column by column, in several parts where it would be too wide.

/// The first cell of a column is its title; all have as many cells. The first column names the rows: where `most`
/// columns, 0 for any number, do not hold all, each further table begins with it again. Names then keep their ends, and
/// other cells are whole.
std::string tables_of(std::vector<std::vector<std::string>> const& columns, std::size_t most);

// The table of a model's modules and parameters that a person reads, in Lightning's layout, and the rows it is made of,
// which a tensor library delivers.

/// One row of a model's summary. A list of rows begins with the whole model, whose `name` is empty and where a
/// parameter that two modules share counts once; its modules follow in depth-first order down to `max_depth`.
struct ModelRow {
  std::string name;               ///< dotted, as in a checkpoint: "body.0"
  std::string type;               ///< "Linear"
  std::int64_t parameters = 0;    ///< elements
  std::int64_t trainable = 0;     ///< of these, elements that require a gradient
  std::int64_t bytes = 0;         ///< parameters and buffers, in the precision they have now
  bool training = true;           ///< train or eval mode
  std::int64_t shared = 0;        ///< of the parameters, those that a module above in the list has, too
  std::string shared_with = {};   ///< the name of that module
  std::string in = {}, out = {};  ///< sizes of what went in and came out with an example: "[32, 10]"; empty: unknown
  std::int64_t flops = -1;        ///< of matrix products and convolutions with an example; -1: unknown
};

/// Whether a module's parameters train: "yes", "frozen", or how many do; "-" where it has none.
std::string trainable_text(ModelRow const& row);

/// The table with its totals; ends with a newline. `rows[0]` is the whole model. Parameters that stand in two modules
/// are marked in the second by a star, which a line explains. Sizes and operations have columns where an example was
/// run. `most` columns at most, 0: as wide as need be. Modes and sizes in bytes go first; then types and sizes of
/// tensors keep their beginnings, and names their ends, of 24 columns at least; then FLOPs, sizes of tensors and what
/// trains go.
std::string model_table(std::span<ModelRow const> rows, std::size_t most = 0);

}  // namespace fulgurite::report

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/report/terminal.ipp>
#endif
