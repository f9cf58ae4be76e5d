#pragma once
// What came of a sweep: its members in a table, their curves, and the best one with its model.

#include <cmath>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/logger/csv_text.hpp>
#include <fulgurite/report/numbers.hpp>
#include <fulgurite/report/plot.hpp>
#include <fulgurite/report/text_table.hpp>
#include <fulgurite/tuner/space.hpp>
#include <fulgurite/tuner/standing.hpp>

namespace fulgurite::tune {

/// One member: its place in the space, its hyper-parameters, and how it came out.
template <class Setting>
struct SweepRow : Standing {
  std::size_t member = 0;
  Setting setting{};
};

/// Rows come best first: see `before` in standing.hpp for what that means where members did not train equally long.
template <class Setting, class Member>
class SweepResults {
 public:
  using Row = SweepRow<Setting>;
  using Columns = std::vector<typename Space<Setting>::Column>;

  SweepResults(std::string_view metric, Columns columns, std::vector<Row> rows, std::unique_ptr<Member> best,
               int signal)
      : metric_(metric),
        columns_(std::move(columns)),
        rows_(std::move(rows)),
        best_(std::move(best)),
        signal_(signal) {}

  std::vector<Row> const& rows() const { return rows_; }
  /// The signal that ended the sweep before its time, SIGINT after Ctrl-C; 0: none did. A program that ends for it
  /// returns 128 more.
  int signal() const { return signal_; }

  /// The best member. Error [fulgurite.tune.none], with what the first of them said, where no member has come to a
  /// value.
  Row const& best() const {
    if (best_) return rows_.front();
    std::string said;
    for (auto const& row : rows_)
      if (said.empty()) said = row.why;
    throw Error("fulgurite.tune.none", "no member of the sweep has come to a value of " + metric_ +
                                           (said.empty() ? std::string(": it was ended before") : ": " + said));
  }
  Setting const& setting() const { return best().setting; }
  /// The best member's model, as it was when its training ended; on the CPU.
  typename Member::Model& model() const { return best(), best_->model; }
  /// The trainer that trained it.
  typename Member::Trainer& trainer() const { return best(), best_->trainer; }

  /// For a person: the first `most` rows, 0: all, with what went wrong where a member failed.
  std::string table(std::size_t most = 0) const {
    std::vector<report::TextTable::Column> titles{{"rank"}, {"member"}};
    for (auto const& column : columns_) titles.push_back({column.name});
    for (std::string_view const title : {std::string_view(metric_), std::string_view("epochs"),
                                         std::string_view("seconds"), std::string_view("how it ended")})
      titles.push_back({std::string(title)});
    report::TextTable table(titles);
    std::size_t const shown = most == 0 ? rows_.size() : std::min(most, rows_.size());
    for (std::size_t i = 0; i != shown; ++i) {
      auto const& row = rows_[i];
      auto cells = settings_of(i, false);
      cells.push_back(row.value ? report::formatted("%.6g", *row.value) : "");
      cells.push_back(std::to_string(row.epochs()));
      cells.push_back(report::formatted("%.2f", row.seconds));
      cells.push_back(std::string(name_of(row.fate)) + (row.why.empty() ? "" : ": " + first_line(row.why)));
      table.add(std::move(cells));
    }
    return table.text();
  }

  /// All members' curves over their epochs, the best three of them named: `plot().save("sweep.svg")` or `.text()`.
  report::Plot plot() const {
    report::Plot plot{.title = "A sweep of " + std::to_string(rows_.size()) + " members",
                      .x = {.name = "epoch"},
                      .y = {.name = metric_}};
    for (std::size_t i = 0; i != rows_.size(); ++i) {
      auto const& row = rows_[i];
      if (row.curve.empty()) continue;
      report::Curve curve{.y = row.curve, .faint = i >= named};
      for (int epoch = 1; epoch <= row.epochs(); ++epoch) curve.x.push_back(epoch);
      if (i < named) curve.label = label_of(i);
      plot.curves.push_back(std::move(curve));
    }
    if (best_)
      plot.marks.push_back(
          {static_cast<double>(best().epochs()), *best().value, report::formatted("%.6g", *best().value)});
    return plot;
  }

  /// For a program: all rows, with the metric after each epoch in columns `epoch 1`, `epoch 2`, ... Numbers read back
  /// exactly.
  std::string csv() const {
    std::size_t longest = 0;
    for (auto const& row : rows_) longest = std::max(longest, row.curve.size());
    std::vector<std::string> names{"rank", "member"};
    for (auto const& column : columns_) names.push_back(column.name);
    for (std::string_view const name : {std::string_view(metric_), std::string_view("epochs"),
                                        std::string_view("seconds"), std::string_view("fate"), std::string_view("why")})
      names.emplace_back(name);
    for (std::size_t i = 0; i != longest; ++i) names.push_back("epoch " + std::to_string(i + 1));
    auto text = logger::csv_row(names);
    for (std::size_t i = 0; i != rows_.size(); ++i) {
      auto const& row = rows_[i];
      auto cells = settings_of(i, true);
      cells.push_back(row.value ? report::exact(*row.value) : "");
      cells.push_back(std::to_string(row.epochs()));
      cells.push_back(report::exact(row.seconds));
      cells.emplace_back(name_of(row.fate));
      cells.push_back(row.why);
      for (double const value : row.curve) cells.push_back(std::isnan(value) ? "" : report::exact(value));
      cells.resize(names.size());
      text += logger::csv_row(cells);
    }
    return text;
  }
  /// Writes `csv()`; after an Error, [fulgurite.file.write], the file is as it was.
  void save_csv(std::filesystem::path const& file) const { write_durably(file, csv()); }

 private:
  static constexpr std::size_t named = 3;

  std::string label_of(std::size_t i) const {
    std::string label;
    for (auto const& column : columns_) {
      label += label.empty() ? "" : ", ";
      (label += column.name) += ' ';
      label += column.text(rows_[i].setting, false);
    }
    return label;
  }
  std::vector<std::string> settings_of(std::size_t i, bool exactly) const {
    std::vector<std::string> cells{std::to_string(i + 1), std::to_string(rows_[i].member)};
    for (auto const& column : columns_) cells.push_back(column.text(rows_[i].setting, exactly));
    return cells;
  }
  static std::string first_line(std::string const& text) { return text.substr(0, text.find('\n')); }

  std::string metric_;
  Columns columns_;
  std::vector<Row> rows_;
  std::unique_ptr<Member> best_;
  int signal_;
};

}  // namespace fulgurite::tune
