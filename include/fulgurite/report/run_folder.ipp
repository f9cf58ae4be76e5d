#pragma once
// The bodies of report/run_folder.hpp.

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <limits>
#include <system_error>
#include <type_traits>

#include <fulgurite/checkpoint/crc32c.hpp>
#include <fulgurite/core/archive.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/report/run_folder.hpp>
#include <fulgurite/report/terminal.hpp>

namespace fulgurite::report {

FULGURITE_BULK_BODY void History::add(std::string_view name, double x, double y) {
  auto at = std::ranges::find(series_, name, &Series::name);
  if (at == series_.end()) at = series_.insert(series_.end(), Series{.name = std::string(name)});
  at->waiting.push_back({x, y});
  if (at->waiting.size() < at->each) return;
  auto const mean = mean_of(at->waiting);
  at->waiting.clear();
  at->x.push_back(mean.x);
  at->y.push_back(mean.y);
  if (at->x.size() >= most_) thin(*at);
}

FULGURITE_BULK_BODY std::vector<Curve> History::curves() const {
  std::vector<Curve> all;
  for (auto const& series : series_) {
    all.push_back({.label = series.name, .x = series.x, .y = series.y});
    if (series.waiting.empty()) continue;
    auto const mean = mean_of(series.waiting);
    all.back().x.push_back(mean.x);
    all.back().y.push_back(mean.y);
  }
  return all;
}

FULGURITE_BULK_BODY History::Point History::mean_of(std::vector<Point> const& points) {
  Point sum;
  for (auto const& point : points) {
    sum.x += point.x / static_cast<double>(points.size());
    sum.y += point.y / static_cast<double>(points.size());
  }
  return points.size() == 1 ? points.front() : sum;
}

FULGURITE_BULK_BODY void History::thin(Series& series) {
  std::size_t const half = series.x.size() / 2;
  for (std::size_t i = 0; i != half; ++i) {
    auto const mean = mean_of({{series.x[2 * i], series.y[2 * i]}, {series.x[2 * i + 1], series.y[2 * i + 1]}});
    series.x[i] = mean.x;
    series.y[i] = mean.y;
  }
  if (series.x.size() % 2 == 1)
    for (std::size_t i = 0; i != series.each; ++i) series.waiting.push_back({series.x.back(), series.y.back()});
  series.x.resize(half);
  series.y.resize(half);
  series.each *= 2;
}

FULGURITE_BULK_BODY void History::load(std::vector<std::string> const& names, std::vector<std::size_t> const& each,
                                       std::vector<std::size_t> const& points, std::vector<std::size_t> const& waiting,
                                       std::vector<double> const& values) {
  series_.clear();
  std::size_t at = 0;
  auto const next = [&] { return at < values.size() ? values[at++] : 0; };
  for (std::size_t i = 0; i != std::min({names.size(), each.size(), points.size(), waiting.size()}); ++i) {
    Series series{.name = names[i], .each = each[i]};
    for (std::size_t k = 0; k != points[i] && at < values.size(); ++k) {
      series.x.push_back(next());
      series.y.push_back(next());
    }
    for (std::size_t k = 0; k != waiting[i] && at < values.size(); ++k) {
      double const x = next();
      series.waiting.push_back({x, next()});
    }
    series_.push_back(std::move(series));
  }
}

/// Removes the number after the last point from `name`, together with the point, and returns it. "07" is not a number,
/// since no matrix writes it.
FULGURITE_BODY std::optional<std::size_t> take_number(std::string_view& name) {
  auto const point = name.rfind('.');
  if (point == std::string_view::npos || point == 0) return std::nullopt;
  auto const digits = name.substr(point + 1);
  if (digits.size() > 6) return std::nullopt;  // no matrix has so many rows, and this bounds the number of cells
  std::size_t number = 0;
  auto const [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size() || digits != std::to_string(number))
    return std::nullopt;
  name = name.substr(0, point);
  return number;
}

/// A cell of a matrix: the matrix's name, and the cell's place in it.
struct MatrixCell {
  std::string name;
  std::size_t row = 0, column = 0;
};

/// The cell that a label names, such as "val/pairs.2.0"; with several loaders the loader's name follows, as in
/// "val/pairs.2.0/night".
FULGURITE_BODY std::optional<MatrixCell> cell_of(std::string_view label) {
  for (auto const end : {label.size(), label.rfind('/')}) {
    if (end == std::string_view::npos) continue;
    auto name = label.substr(0, end);
    auto const column = take_number(name), row = column ? take_number(name) : std::nullopt;
    if (row) return MatrixCell{std::string(name).append(label.substr(end)), *row, *column};
  }
  return std::nullopt;
}

FULGURITE_BODY std::vector<Matrix> take_matrices(std::vector<Curve>& curves) {
  std::vector<std::optional<MatrixCell>> cells;
  std::vector<Matrix> all;
  for (auto const& curve : curves) {
    cells.push_back(cell_of(curve.label));
    if (!cells.back()) continue;
    auto at = std::ranges::find(all, cells.back()->name, &Matrix::name);
    if (at == all.end()) at = all.insert(all.end(), Matrix{.name = cells.back()->name});
    at->size = std::max({at->size, cells.back()->row + 1, cells.back()->column + 1});
    at->cells.emplace_back();  // as many as there are
  }
  // The size is compared first: a single name with a large number in it does not make a square.
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

FULGURITE_BODY std::string subject_of(std::string_view name) {
  std::string_view rest = name;
  for (std::string_view const from : {"train", "training", "val", "valid", "validation", "test"})
    if (rest.size() > from.size() + 1 && rest.starts_with(from) &&
        std::string_view("/_-").find(rest[from.size()]) != std::string_view::npos) {
      rest.remove_prefix(from.size() + 1);
      break;
    }
  for (std::string_view const ending : {"_step", "_epoch"})
    if (rest.size() > ending.size() && rest.ends_with(ending)) rest.remove_suffix(ending.size());
  auto const slash = rest.rfind('/');
  auto const own = slash == std::string_view::npos ? 0 : slash + 1;
  if (auto const point = rest.find('.', own); point != std::string_view::npos && point != own)
    rest = rest.substr(0, point);
  return std::string(rest);
}

FULGURITE_BODY std::vector<Plot> panels(std::vector<Curve> curves, Axis const& x) {
  take_matrices(curves);
  std::vector<Plot> all;
  for (auto& curve : curves) {
    auto const subject = subject_of(curve.label);
    auto at = std::ranges::find_if(
        all, [&](Plot const& plot) { return plot.title == subject && plot.curves.size() < most_curves; });
    if (at == all.end()) at = all.insert(all.end(), Plot{.title = subject, .x = x});
    at->curves.push_back(std::move(curve));
  }
  return all;
}

void History::state(auto& archive) {
  std::vector<std::string> names;
  std::vector<std::size_t> each, points, waiting;
  std::vector<double> values;
  auto const put = [&](double x, double y) { values.insert(values.end(), {x, y}); };
  for (auto const& series : series_) {
    names.push_back(series.name);
    each.push_back(series.each);
    points.push_back(series.x.size());
    waiting.push_back(series.waiting.size());
    for (std::size_t i = 0; i != series.x.size(); ++i) put(series.x[i], series.y[i]);
    for (auto const& [x, y] : series.waiting) put(x, y);
  }
  archive("names", names)("each", each)("points", points)("waiting", waiting)("values", values);
  if constexpr (std::remove_cvref_t<decltype(archive)>::loading) load(names, each, points, waiting, values);
}
FULGURITE_STATE(History)

/// The value in a summary of an event file, if it is a number: a field of its own, or a tensor of one float.
FULGURITE_BULK_BODY std::optional<double> value_in(std::string_view summary) {
  if (auto const plain = protobuf::find(summary, 2); plain && plain->size() == 4)
    return protobuf::number<float>(*plain);
  auto const tensor = protobuf::find(summary, 8);
  auto const kind = tensor ? protobuf::find(*tensor, 1) : std::nullopt;
  if (!kind || *kind != "\x01") return std::nullopt;  // not a float
  for (unsigned const field : {5U, 4U})
    if (auto const bytes = protobuf::find(*tensor, field); bytes && bytes->size() == 4)
      return protobuf::number<float>(*bytes);
  return std::nullopt;
}

FULGURITE_BULK_BODY void each_event_scalar(std::string_view file,
                                           FunctionRef<void(std::string_view, double, double)> f) {
  constexpr std::size_t head = 12, around = 16;  // length and its checksum; the event's checksum
  while (file.size() >= around) {
    auto const length = protobuf::number<std::uint64_t>(file);
    if (length > file.size() - around) return;
    auto const event = file.substr(head, static_cast<std::size_t>(length));
    if (protobuf::number<std::uint32_t>(file.substr(head + event.size())) != protobuf::checksum(event)) return;
    file.remove_prefix(event.size() + around);
    double step = 0;
    if (auto bytes = protobuf::find(event, 2))
      step = static_cast<double>(static_cast<std::int64_t>(protobuf::take_varint(*bytes).value_or(0)));
    auto rest = protobuf::find(event, 5).value_or(std::string_view());
    while (auto const summary = protobuf::find(rest, 1, &rest)) {
      auto const number = value_in(*summary);
      if (auto const tag = protobuf::find(*summary, 1); tag && number) f(*tag, step, *number);
    }
  }
}

// The files of a run's folder, by format: tables, JSON lines, event files, a mapping.

FULGURITE_BODY std::string text_of(std::filesystem::path const& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The rows of a table to which another program may be writing: an incomplete row is left out.
FULGURITE_BODY std::vector<std::vector<std::string>> rows_of(std::string_view text) {
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> row(1);
  bool inside = false;
  for (std::size_t i = 0; i != text.size(); ++i) {
    char const c = text[i];
    if (c == '"' && inside && i + 1 != text.size() && text[i + 1] == '"') row.back() += text[i++];
    else if (c == '"') inside = !inside;
    else if (inside) row.back() += c;
    else if (c == ',') row.emplace_back();
    else if (c == '\n') {
      rows.push_back(std::exchange(row, std::vector<std::string>(1)));
    } else if (c != '\r') {
      row.back() += c;
    }
  }
  return rows;
}

FULGURITE_BODY std::optional<double> run_folder::number_of(std::string_view text) {
  if (text == "nan" || text == "-nan") return std::numeric_limits<double>::quiet_NaN();
  double value = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Adds a value to the curve of that name, which follows the others if it is new. `step` and `epoch` are not metrics.
FULGURITE_BODY void add_value(std::vector<Curve>& curves, std::string_view name, double step, double value) {
  if (name == "step" || name == "epoch") return;
  auto at = std::ranges::find(curves, name, &Curve::label);
  if (at == curves.end()) at = curves.insert(curves.end(), Curve{.label = std::string(name)});
  at->x.push_back(step);
  at->y.push_back(value);
}

FULGURITE_BODY std::vector<Curve> of_csv(std::string_view text) {
  auto const rows = rows_of(text);
  std::vector<Curve> curves;
  if (rows.empty()) return {};
  auto const& names = rows.front();
  auto const step = static_cast<std::size_t>(std::ranges::find(names, "step") - names.begin());
  for (std::size_t r = 1; r < rows.size(); ++r) {
    double const x = step < rows[r].size() ? run_folder::number_of(rows[r][step]).value_or(static_cast<double>(r - 1))
                                           : static_cast<double>(r - 1);
    for (std::size_t i = 0; i != std::min(names.size(), rows[r].size()); ++i)
      if (auto const y = run_folder::number_of(rows[r][i])) add_value(curves, names[i], x, *y);
  }
  return curves;
}

/// The event files of TensorBoardLogger, or of another writer, one after the other.
FULGURITE_BODY std::vector<Curve> of_events(std::vector<std::filesystem::path> const& files) {
  std::vector<Curve> curves;
  for (auto const& file : files) {
    auto const bytes = text_of(file);
    each_event_scalar(bytes,
                      [&](std::string_view tag, double step, double value) { add_value(curves, tag, step, value); });
  }
  return curves;
}

FULGURITE_BODY bool is_event_file(std::filesystem::path const& file) {
  return file.filename().string().starts_with("events.out.tfevents.");
}

/// The files in a folder, in the order of their names; empty if there is no folder.
FULGURITE_BODY std::vector<std::filesystem::path> files_in(std::filesystem::path const& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    if (std::error_code none; entry->is_regular_file(none)) files.push_back(entry->path());
  sort_seldom(files);
  return files;
}

/// The rows of JsonLinesLogger, or of MLflowLogger, which also have the time. A line that is not an object with a step
/// is left out: the last one may be incomplete.
FULGURITE_BODY std::vector<Curve> of_json_lines(std::string_view text, std::string const& name) {
  bool const is_journal = name.ends_with("rows.jsonl");
  std::vector<Curve> curves;
  text = text.substr(0, text.rfind('\n') + 1);
  while (!text.empty()) {
    auto const line = take_line(text);
    if (!line.starts_with('{') || line.starts_with("{\"hparams\":")) continue;
    std::vector<std::pair<std::string, double>> row;
    double step = 0;
    try {
      json::Reader in(line, "fulgurite.report.no_run", name);
      in.object([&](std::string key) {
        auto const value = run_folder::number_of(in.peek() == '"' ? in.string() : std::string(in.number()));
        if (key == "time" && is_journal) return;
        if (key == "step") step = value.value_or(0);
        else if (value) row.emplace_back(std::move(key), *value);
      });
    } catch (Error const&) { continue; }
    for (auto const& [metric, value] : row) add_value(curves, metric, step, value);
  }
  return curves;
}

/// The mapping that this library's loggers write: a name and a value in each line.
FULGURITE_BODY std::vector<std::pair<std::string, std::string>> of_yaml(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> all;
  auto const plain = [](std::string_view quoted) {
    while (quoted.starts_with(' ')) quoted.remove_prefix(1);
    while (quoted.ends_with(' ') || quoted.ends_with('\r')) quoted.remove_suffix(1);
    if (!quoted.starts_with('"')) return std::string(quoted);
    try {
      return json::Reader(quoted, "fulgurite.report.no_run", "hparams.yaml").string();
    } catch (Error const&) { return std::string(quoted); }
  };
  while (!text.empty()) {
    auto const line = take_line(text);
    auto const colon = line.starts_with('"') ? line.find("\": ") : line.find(": ");
    if (colon == std::string_view::npos) continue;
    auto const name = line.substr(0, colon + line.starts_with('"'));
    all.emplace_back(plain(name), plain(line.substr(name.size() + 1)));
  }
  return all;
}

/// options.txt: `max_epochs = 10` in each line.
FULGURITE_BODY std::vector<std::pair<std::string, std::string>> of_options(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> all;
  while (!text.empty()) {
    auto const line = take_line(text);
    if (auto const at = line.find(" = "); at != std::string_view::npos)
      all.emplace_back(line.substr(0, at), line.substr(at + 3));
  }
  return all;
}

/// True if a run's loggers have written to this folder.
FULGURITE_BODY bool is_run_folder(std::filesystem::path const& folder) {
  std::error_code error;
  for (char const* name : {"metrics.csv", "metrics.jsonl", "rows.jsonl"})
    if (std::filesystem::exists(folder / name, error)) return true;
  return std::ranges::any_of(files_in(folder), &is_event_file);
}

FULGURITE_BODY RunFolder read_run_folder(std::filesystem::path const& folder) {
  if (!is_run_folder(folder))
    throw Error("fulgurite.report.no_run", folder.string() +
                                               " has none of metrics.csv, metrics.jsonl, rows.jsonl and event files: "
                                               "name the folder of a run, such as lightning_logs/version_0, or one "
                                               "with such folders in it");
  RunFolder run{.path = folder};
  run.curves = of_csv(text_of(folder / "metrics.csv"));
  for (char const* name : {"metrics.jsonl", "rows.jsonl"})
    if (run.curves.empty()) run.curves = of_json_lines(text_of(folder / name), (folder / name).string());
  auto files = files_in(folder);
  if (run.curves.empty()) {
    std::vector<std::filesystem::path> events;
    std::ranges::copy_if(files, std::back_inserter(events), &is_event_file);
    run.curves = of_events(events);
  }
  run.hyperparameters = of_yaml(text_of(folder / "hparams.yaml"));
  std::ranges::copy(files_in(folder / "artifacts"), std::back_inserter(files));  // MLflow's folder for texts
  for (auto const& file : files) {
    auto const name = file.filename().string();
    if (name == "options.txt") run.options = of_options(text_of(file));
    else if (file.extension() == ".txt" || file.extension() == ".toml") run.notes.emplace_back(name, text_of(file));
    if (!name.starts_with("fit-") || file.extension() != ".csv" || !run.times.empty()) continue;
    auto rows = rows_of(text_of(file));
    if (!rows.empty() && rows.front().size() == 6 && rows.front()[0] == "part")
      run.times.assign(rows.begin() + 1, rows.end());
  }
  return run;
}

FULGURITE_BODY std::vector<RunFolder> read_run_folders(std::vector<std::filesystem::path> const& folders) {
  std::vector<RunFolder> runs;
  std::vector<std::filesystem::path> known;
  auto const read = [&](std::filesystem::path const& folder) {
    std::error_code error;
    auto const place = std::filesystem::weakly_canonical(folder, error);
    if (std::ranges::find(known, place) != known.end()) return;
    known.push_back(place);
    runs.push_back(read_run_folder(folder));
  };
  for (auto const& folder : folders) {
    std::vector<std::filesystem::path> inside;
    std::error_code error;
    if (!is_run_folder(folder))
      for (auto const& entry : std::filesystem::directory_iterator(folder, error))
        if (is_run_folder(entry.path())) inside.push_back(entry.path());
    sort_seldom(inside, [](auto const& a, auto const& b) {
      return std::pair(a.string().size(), a.string()) < std::pair(b.string().size(), b.string());
    });
    if (inside.empty()) read(folder);
    for (auto const& one : inside) read(one);
  }
  return runs;
}

}  // namespace fulgurite::report
