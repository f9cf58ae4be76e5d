#pragma once
// Text for people: what their terminal holds, tables and numbers in it.

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/text.hpp>

namespace fulgurite::report {

/// True if the stream is a terminal that accepts control codes: with TERM=dumb it does not.
bool is_terminal(std::FILE* stream);

/// The width of the stream's terminal, in columns; 0 if it is not known.
int terminal_columns(std::FILE* stream);

/// The maximum width of text: `asked` if given, else the terminal's, also with TERM=dumb. 0 means no limit: in a file,
/// or if the width is not known.
std::size_t text_columns(std::FILE* stream, int asked);

/// The height of the stream's terminal, in lines; 0 if it is not known.
int terminal_lines(std::FILE* stream);

/// The width of UTF-8 text, counting one column for each code point: right for this library's output and for Latin
/// names.
std::size_t display_width(std::string_view text);

/// The beginning of the text that fits into `columns` columns; no character is cut in half.
std::string_view clipped(std::string_view text, std::size_t columns);

// Text that is wrapped between words, so that a terminal does not break a word.

/// The lines of a text, none wider than `columns` unless one word is, such as a path. 0: one line.
std::vector<std::string> wrapped_lines(std::string_view text, std::size_t columns);
/// The wrapped lines as one text; each ends with a newline.
std::string wrapped(std::string_view text, std::size_t columns);

// Columns as wide as their widest cell, with a rule above and below the rows.

/// Which part of a cell is kept in a table that must be narrower.
enum class Clip : std::uint8_t { never, keeps_beginning, keeps_end };

/// A table of text: `TextTable{{{.title = "Name"}, {.title = "Params"}}}`, then `add({"body", "203 K"})` for each row,
/// then `text()`.
class TextTable {
 public:
  struct Column {
    std::string title;
    Clip clip = Clip::never;
    int goes =
        0;  ///< in which order columns are left out of a table that is too wide: 1 first, then 2, and so on; 0 never
  };

  explicit TextTable(std::vector<Column> columns);

  /// Adds a row. Missing cells are empty, and surplus cells are dropped.
  void add(std::vector<std::string> cells);

  /// The table; it ends with the lower rule and a newline. At most `most` columns wide, if possible: first columns with
  /// `goes` = 1 are left out, then cells are clipped, those that keep their ends least, then the other columns with
  /// `goes` are left out. 0: as wide as needed.
  std::string text(std::size_t most = 0) const;

 private:
  static constexpr std::size_t least = 8;  ///< minimum width of a clipped cell
  static constexpr std::size_t readable =
      24;  ///< minimum for a cell that keeps its end, which distinguishes it from others
  static constexpr int last_to_go = 1000;

  /// Narrows the widest columns that may be clipped until the table has `most` columns, or as far as possible.
  void clip(std::vector<std::size_t>& widths, std::size_t most, std::size_t least_of_ends) const;
  /// Leaves out the column that goes first among those up to `goes`; of several, the last one.
  bool leave_out(int goes);
  std::string line(std::vector<std::string> const& cells) const;

  std::vector<Column> columns_;
  std::vector<std::size_t> widths_{};
  std::vector<std::vector<std::string>> rows_{};
};

// A table that is given column by column; split into several tables if it would be too wide.

/// The first cell of a column is its title; all columns have the same number of cells. The first column names the rows:
/// if `most` columns of text (0: any number) do not hold all, each further table begins with it again. Names then keep
/// their ends, and other cells are never clipped.
std::string tables_of(std::vector<std::vector<std::string>> const& columns, std::size_t most);

// The table of a model's modules and parameters for a person, in Lightning's layout, and its rows, which a tensor
// library supplies.

/// One row of a model's summary. The first row is the whole model: its `name` is empty, and a parameter that two
/// modules share counts once in it. The modules follow in depth-first order down to `max_depth`.
struct ModelRow {
  std::string name = {};          ///< dotted, as in a checkpoint: "body.0"
  std::string type = {};          ///< "Linear"
  std::int64_t parameters = 0;    ///< elements
  std::int64_t trainable = 0;     ///< elements that require a gradient
  std::int64_t bytes = 0;         ///< parameters and buffers, in their current precision
  bool training = true;           ///< train or eval mode
  std::int64_t shared = 0;        ///< parameters that a module above in the list has, too
  std::string shared_with = {};   ///< the name of that module
  std::string in = {}, out = {};  ///< sizes of the input and the output with an example: "[32, 10]"; empty: unknown
  std::int64_t flops = -1;        ///< of matrix products and convolutions with an example; -1: unknown
};

/// The table with its totals; ends with a newline. `rows[0]` is the whole model. Parameters that two modules share are
/// marked in the second one by a star, which a line explains. There are columns for sizes and operations if an example
/// was run. At most `most` columns wide, 0: as wide as needed. First the modes and sizes in bytes are left out; then
/// types and sizes of tensors keep their beginnings, and names their ends, of at least 24 columns; then FLOPs, sizes of
/// tensors and the column of trainable parameters are left out.
std::string model_table(std::span<ModelRow const> rows, std::size_t most = 0);

// Numbers for people to read, and numbers that a program reads back exactly.

/// One value, formatted by a printf format such as "%5.2f", of kind e, f or g with at most 40 digits. Unlike printf, it
/// writes a point in every locale, since programs read some of these texts.
std::string formatted(std::string_view format, double value);

/// A count in Lightning's notation: 203530 is "203 K", 1234 is "1.2 K", 7 is "7". From 100 on, digits are cut off, not
/// rounded.
std::string count_text(std::int64_t count);

/// A number of bytes in powers of 1000: 814120 is "814.1 kB".
std::string bytes_text(std::int64_t bytes);

/// Whole seconds in tqdm's format: 75.4 is "01:15", 3725 is "1:02:05".
std::string clock_text(double seconds);

}  // namespace fulgurite::report

namespace fulgurite::reflect {

// The text of a setting, for a person.

/// The text of a field, for a person. For a type of your own, define a function `field_text(T const&)` in its
/// namespace.
template <class T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T>
std::string field_text(T const& value) {
  if constexpr (std::same_as<T, bool>) return value ? "true" : "false";
  else if constexpr (std::is_same_v<T, float>) return report::formatted("%.9g", static_cast<double>(value));
  else if constexpr (std::is_floating_point_v<T>) return exact_number(static_cast<double>(value));
  else if constexpr (std::is_enum_v<T>) return std::to_string(static_cast<std::underlying_type_t<T>>(value));
  else return std::to_string(value);
}
inline std::string field_text(std::string const& value) { return value; }
inline std::string field_text(std::filesystem::path const& value) { return value.string(); }
template <class Rep, class Period>
std::string field_text(std::chrono::duration<Rep, Period> const& value) {
  return exact_number(std::chrono::duration<double>(value).count()) + " s";
}
template <class T>
std::string field_text(std::optional<T> const& value) {
  return value ? field_text(*value) : "none";
}

}  // namespace fulgurite::reflect

namespace fulgurite::report {

// Numbers and strings in YAML, so that readers get the right types.

/// The number as YAML, exact and always with a point: readers of YAML 1.1 would read 1e-05 as a string and 3 as an
/// integer.
std::string yaml(double value);

/// The text in double quotes. YAML readers refuse bytes that are not UTF-8, which become U+FFFD, and control
/// characters, which are escaped; so are characters that YAML takes for ends of lines.
std::string yaml(std::string_view text);

// Any text as text in an XML file.

/// The text for an element or an attribute, with XML's own characters as entities. Control characters become spaces.
/// Bytes that are not UTF-8, and the two characters that XML forbids, become U+FFFD.
std::string xml_text(std::string_view text);

/// Removes the first line, with its newline if it has one, and returns it without.
std::string_view take_line(std::string_view& text);

/// Like xml_text, but keeps line breaks.
std::string xml_lines(std::string_view text);

}  // namespace fulgurite::report

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/report/terminal.ipp>
#endif
