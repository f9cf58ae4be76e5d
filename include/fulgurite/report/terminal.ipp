#pragma once
// The bodies of report/terminal.hpp.

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <sys/ioctl.h>
#include <unistd.h>
#include <utility>

#include <fulgurite/report/terminal.hpp>

namespace fulgurite::report {

FULGURITE_BODY bool is_terminal(std::FILE* stream) {
  int const descriptor = ::fileno(stream);
  char const* const kind = std::getenv("TERM");
  return descriptor >= 0 && ::isatty(descriptor) == 1 && (kind == nullptr || std::string_view(kind) != "dumb");
}

FULGURITE_BODY int terminal_columns(std::FILE* stream) {
  winsize size{};
  int const descriptor = ::fileno(stream);
  return descriptor >= 0 && ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

FULGURITE_BODY std::size_t text_columns(std::FILE* stream, int asked) {
  return static_cast<std::size_t>(std::max(0, asked > 0 ? asked : terminal_columns(stream)));
}

FULGURITE_BODY int terminal_lines(std::FILE* stream) {
  winsize size{};
  int const descriptor = ::fileno(stream);
  return descriptor >= 0 && ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 ? size.ws_row : 0;
}

FULGURITE_BODY std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  for (char c : text) width += (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  return width;
}

FULGURITE_BODY std::string_view clipped(std::string_view text, std::size_t columns) {
  std::size_t at = 0;
  for (std::size_t width = 0; at != text.size(); ++at)
    if ((static_cast<unsigned char>(text[at]) & 0xC0U) != 0x80U && width++ == columns) break;
  return text.substr(0, at);
}

FULGURITE_BODY std::vector<std::string> wrapped_lines(std::string_view text, std::size_t columns) {
  std::vector<std::string> lines;
  std::string line;
  for (std::size_t at = 0; at < text.size();) {
    auto const end = std::min(text.find(' ', at), text.size());
    auto const word = text.substr(at, end - at);
    at = end + 1;
    if (!line.empty() && columns != 0 && display_width(line) + 1 + display_width(word) > columns)
      lines.push_back(std::exchange(line, {}));
    (line += line.empty() ? "" : " ") += word;
  }
  if (!line.empty()) lines.push_back(std::move(line));
  return lines;
}

FULGURITE_BODY std::string wrapped(std::string_view text, std::size_t columns) {
  std::string all;
  for (auto const& line : wrapped_lines(text, columns)) (all += line) += '\n';
  return all;
}

FULGURITE_BODY TextTable::TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {
  for (auto const& column : columns_) widths_.push_back(display_width(column.title));
}

FULGURITE_BODY void TextTable::add(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  for (std::size_t i = 0; i != cells.size(); ++i) widths_[i] = std::max(widths_[i], display_width(cells[i]));
  rows_.push_back(std::move(cells));
}

/// The width of a table with columns of these widths.
FULGURITE_BODY std::size_t width_of(std::vector<std::size_t> const& widths) {
  std::size_t all = 3 * (widths.size() - 1);
  for (auto const width : widths) all += width;
  return all;
}

/// A cell that is cut to a width.
FULGURITE_BODY std::string fitted(std::string const& cell, std::size_t width, Clip clip) {
  std::size_t const all = display_width(cell);
  if (all <= width) return cell;
  if (clip == Clip::keeps_beginning) return std::string(clipped(cell, width - 1)) + "…";
  return "…" + cell.substr(clipped(cell, all - (width - 1)).size());
}

FULGURITE_BODY std::string TextTable::text(std::size_t most) const {
  if (most != 0 && width_of(widths_) > most) {
    TextTable fitting = *this;
    while (width_of(fitting.widths_) > most && fitting.leave_out(1)) {}
    auto narrow = fitting.widths_;
    fitting.clip(narrow, most, readable);
    while (width_of(narrow) > most && fitting.leave_out(last_to_go)) {
      narrow = fitting.widths_;
      fitting.clip(narrow, most, readable);
    }
    fitting.clip(narrow, most, least);
    for (auto& row : fitting.rows_)
      for (std::size_t i = 0; i != row.size(); ++i) row[i] = fitted(row[i], narrow[i], fitting.columns_[i].clip);
    fitting.widths_ = narrow;
    return fitting.text();
  }
  std::vector<std::string> titles;
  for (auto const& column : columns_) titles.push_back(column.title);
  auto const head = line(titles);
  std::string const rule(display_width(head), '-');
  std::string all = head + '\n' + rule + '\n';
  for (auto const& row : rows_) all += line(row) + '\n';
  return all + rule + '\n';
}

FULGURITE_BODY void TextTable::clip(std::vector<std::size_t>& widths, std::size_t most,
                                    std::size_t least_of_ends) const {
  while (width_of(widths) > most) {
    std::size_t* widest = nullptr;
    for (std::size_t i = 0; i != widths.size(); ++i) {
      auto const of_clip = columns_[i].clip == Clip::keeps_end ? least_of_ends : least;
      if (columns_[i].clip != Clip::never && widths[i] > std::max(of_clip, display_width(columns_[i].title)) &&
          (widest == nullptr || widths[i] > *widest))
        widest = &widths[i];
    }
    if (widest == nullptr) break;
    --*widest;
  }
}

FULGURITE_BODY bool TextTable::leave_out(int goes) {
  std::size_t first = columns_.size();
  for (std::size_t i = 0; i != columns_.size(); ++i) {
    int const turn = columns_[i].goes;
    if (turn != 0 && turn <= goes && (first == columns_.size() || turn <= columns_[first].goes)) first = i;
  }
  if (first == columns_.size()) return false;
  auto const at = static_cast<std::ptrdiff_t>(first);
  columns_.erase(columns_.begin() + at);
  widths_.erase(widths_.begin() + at);
  for (auto& row : rows_) row.erase(row.begin() + at);
  return true;
}

FULGURITE_BODY std::string TextTable::line(std::vector<std::string> const& cells) const {
  std::string joined;
  for (std::size_t i = 0; i != cells.size(); ++i)
    (joined += i == 0 ? "" : " | ") += cells[i] + std::string(widths_[i] - display_width(cells[i]), ' ');
  return joined;
}

FULGURITE_BODY std::string tables_of(std::vector<std::vector<std::string>> const& columns, std::size_t most) {
  auto const width = [](std::vector<std::string> const& cells) {
    std::size_t widest = 0;
    for (auto const& cell : cells) widest = std::max(widest, display_width(cell));
    return widest;
  };
  constexpr std::size_t readable = 24;  // for names
  auto const names = std::min(width(columns[0]), std::max(readable, display_width(columns[0][0])));
  std::string text;
  for (std::size_t from = 1; from < columns.size();) {
    std::size_t to = from, taken = names;
    do taken += 3 + width(columns[to++]);
    while (to != columns.size() && (most == 0 || taken + 3 + width(columns[to]) <= most));
    std::vector<TextTable::Column> titles{{.title = columns[0][0], .clip = Clip::keeps_end}};
    for (std::size_t i = from; i != to; ++i) titles.push_back({.title = columns[i][0]});
    TextTable table(std::move(titles));
    for (std::size_t row = 1; row < columns[0].size(); ++row) {
      std::vector<std::string> cells{columns[0][row]};
      for (std::size_t i = from; i != to; ++i) cells.push_back(columns[i][row]);
      table.add(std::move(cells));
    }
    text += table.text(most);
    from = to;
  }
  return text;
}

/// Whether a module's parameters train: "yes", "frozen", or how many do; "-" if it has none.
FULGURITE_BODY std::string trainable_text(ModelRow const& row) {
  if (row.parameters == 0) return "-";
  if (row.trainable == row.parameters) return "yes";
  return row.trainable == 0 ? "frozen" : count_text(row.trainable);
}

FULGURITE_BODY std::string model_table(std::span<ModelRow const> rows, std::size_t most) {
  if (rows.empty()) return {};
  bool const sized = std::ranges::any_of(rows, [](auto const& row) { return !row.in.empty() || row.flops >= 0; });
  std::vector<TextTable::Column> columns{{.title = ""},
                                         {.title = "Name", .clip = Clip::keeps_end},
                                         {.title = "Type", .clip = Clip::keeps_beginning},
                                         {.title = "Params"},
                                         {.title = "Trainable", .goes = 5},
                                         {.title = "Size", .goes = 1},
                                         {.title = "Mode", .goes = 1}};
  if (sized)
    columns.insert(columns.end(), {{.title = "FLOPs", .goes = 2},
                                   {.title = "In sizes", .clip = Clip::keeps_beginning, .goes = 3},
                                   {.title = "Out sizes", .clip = Clip::keeps_beginning, .goes = 4}});
  TextTable table{std::move(columns)};
  auto const size = [](std::string const& text) { return text.empty() ? std::string("?") : text; };
  std::string shared;
  for (std::size_t i = 1; i < rows.size(); ++i) {
    auto const& row = rows[i];
    std::vector<std::string> cells{std::to_string(i - 1),
                                   row.name,
                                   row.type,
                                   count_text(row.parameters) + (row.shared > 0 ? " *" : ""),
                                   trainable_text(row),
                                   bytes_text(row.bytes),
                                   row.training ? "train" : "eval"};
    if (sized) cells.insert(cells.end(), {row.flops < 0 ? "?" : count_text(row.flops), size(row.in), size(row.out)});
    table.add(std::move(cells));
    if (row.shared > 0)
      shared += wrapped("* " + row.name + ": " + count_text(row.shared) + " of these are parameters of " +
                            row.shared_with + ", and count once in the totals",
                        most);
  }
  auto const& whole = rows.front();
  std::string text = rows.size() > 1 ? table.text(most) + shared : std::string{};
  auto const total = [&](std::string figure, char const* meaning) {
    figure.resize(std::max<std::size_t>(figure.size() + 1, 10), ' ');
    for (auto const& line : wrapped_lines(meaning, most > figure.size() + 16 ? most - figure.size() : most)) {
      text += figure + line + '\n';
      figure.assign(figure.size(), ' ');
    }
  };
  total(count_text(whole.trainable), "Trainable params");
  total(count_text(whole.parameters - whole.trainable), "Non-trainable params");
  total(count_text(whole.parameters), "Total params");
  total(bytes_text(whole.bytes), "Total size of parameters and buffers");
  if (whole.flops >= 0) total(count_text(whole.flops), "FLOPs of matrix products and convolutions, example forward");
  if (sized) total("Example:", (size(whole.in) + " to " + size(whole.out)).c_str());
  return text;
}

// Numbers.

FULGURITE_BULK_BODY std::string formatted(std::string_view format, double value) {
  auto const begin = format.find('%'), kind = format.find_first_of("eEfFgG", begin);
  auto const* const end = format.data() + kind;
  std::size_t width = 0;
  int digits = 6;
  if (auto const* at = std::from_chars(format.data() + begin + 1, end, width).ptr; at != end)
    std::from_chars(at + 1, end, digits);
  bool const capitals = *end < 'a';
  auto const how = *end == 'f' || *end == 'F'   ? std::chars_format::fixed
                   : *end == 'g' || *end == 'G' ? std::chars_format::general
                                                : std::chars_format::scientific;
  std::array<char, 400> text{};  // the largest number has 309 digits before its point
  std::string number(text.data(), std::to_chars(text.data(), text.data() + text.size(), value, how, digits).ptr);
  if (capitals)
    for (char& c : number)
      if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  number.insert(0, width - std::min(width, number.size()), ' ');
  return std::string(format.substr(0, begin)).append(number).append(format.substr(kind + 1));
}

FULGURITE_BULK_BODY std::string count_text(std::int64_t count) {
  constexpr std::array<char const*, 5> units{"", " K", " M", " B", " T"};
  double value = static_cast<double>(count);
  std::size_t unit = 0;
  for (; value >= 1000.0 && unit + 1 != units.size(); ++unit) value /= 1000.0;
  if (unit == 0) return std::to_string(count);
  return (value >= 100.0 ? formatted("%.0f", std::floor(value)) : formatted("%.1f", value)) + units[unit];
}

FULGURITE_BULK_BODY std::string bytes_text(std::int64_t bytes) {
  constexpr std::array<char const*, 5> units{" B", " kB", " MB", " GB", " TB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1000.0 && unit + 1 != units.size(); ++unit) value /= 1000.0;
  return unit == 0 ? std::to_string(bytes) + units[0] : formatted("%.1f", value) + units[unit];
}

FULGURITE_BULK_BODY std::string clock_text(double seconds) {
  auto const whole = static_cast<long long>(seconds < 0 ? 0.0 : seconds);
  std::array<char, 48> text{};
  if (whole >= 3600)
    std::snprintf(text.data(), text.size(), "%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60);
  else std::snprintf(text.data(), text.size(), "%02lld:%02lld", whole / 60, whole % 60);
  return text.data();
}

FULGURITE_BODY std::string yaml(double value) {
  if (std::isnan(value)) return ".nan";
  if (std::isinf(value)) return value > 0 ? ".inf" : "-.inf";
  auto text = exact_number(value);
  if (auto const at = text.find('e'); text.find('.') == std::string::npos)
    text.insert(at == std::string::npos ? text.size() : at, ".0");
  return text;
}

FULGURITE_BODY std::string yaml(std::string_view text) {
  constexpr char digits[] = "0123456789abcdef";
  std::string out = "\"";
  for (std::size_t at = 0, bytes = 0; at < text.size(); at += bytes) {
    bytes = utf8::length(text, at);
    auto const one = text.substr(at, bytes == 0 ? 1 : bytes);
    auto const code = static_cast<unsigned char>(one[0]);
    if (bytes == 0) out += "\xEF\xBF\xBD", bytes = 1;
    else if (one == "\"" || one == "\\") (out += '\\') += one;
    else if (code < 0x20 || code == 0x7F) ((out += "\\u00") += digits[code >> 4]) += digits[code & 15];
    else if (one >= "\xC2\x80" && one < "\xC2\xA0")
      ((out += "\\u00") += digits[static_cast<unsigned char>(one[1]) >> 4]) += digits[one[1] & 15];
    else if (one == "\xE2\x80\xA8" || one == "\xE2\x80\xA9") (out += "\\u202") += one == "\xE2\x80\xA8" ? '8' : '9';
    else if (one == "\xEF\xBF\xBE" || one == "\xEF\xBF\xBF") (out += "\\uff") += one == "\xEF\xBF\xBE" ? "fe" : "ff";
    else out += one;
  }
  return out + '"';
}

FULGURITE_BODY std::string xml_text(std::string_view text) {
  std::string made;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t const bytes = utf8::length(text, at);
    auto const character = text.substr(at, bytes == 0 ? 1 : bytes);
    if (bytes == 0 || character == "\xEF\xBF\xBE" || character == "\xEF\xBF\xBF") made += "\xEF\xBF\xBD";
    else if (character == "&") made += "&amp;";
    else if (character == "<") made += "&lt;";
    else if (character == ">") made += "&gt;";
    else if (character == "\"") made += "&quot;";
    else if (character == "'") made += "&apos;";
    else if (static_cast<unsigned char>(character[0]) < 0x20 || character[0] == 0x7F) made += ' ';
    else made += character;
    at += character.size();
  }
  return made;
}

FULGURITE_BODY std::string_view take_line(std::string_view& text) {
  auto const line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(line.size() + 1, text.size()));
  return line;
}

FULGURITE_BODY std::string xml_lines(std::string_view text) {
  std::string all;
  while (!text.empty()) all += xml_text(take_line(text)) + "\n";
  return all;
}

}  // namespace fulgurite::report
