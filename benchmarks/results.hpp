#pragma once
// The table that a person reads, and the samples as JSON.

#include <cmath>
#include <cstdio>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "workloads.hpp"

namespace bench {

struct Measured {
  std::string workload;
  std::vector<Row> rows;
  double operations = 0;  ///< of a step's matrix products; 0: they are not most of it
};

struct Results {
  std::string commit, processor, kind, libtorch, load;
  int threads = 1;            ///< of LibTorch's
  std::string products = {};  ///< which matrix products were whose
  std::vector<Measured> measured = {};
  std::optional<CheckpointCost> checkpoint = std::nullopt;
};

inline std::string first_of(char const* file, std::string_view key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(key)) {
      auto const colon = line.find(": ");
      return colon == std::string::npos ? line : line.substr(colon + 2);
    }
  return "unknown";
}

inline void print_head(Results const& results) {
  std::printf("commit %s, LibTorch %s, %s (kind: %s), threads %d, load %s\n\n", results.commit.c_str(),
              results.libtorch.c_str(), results.processor.c_str(), results.kind.c_str(), results.threads,
              results.load.c_str());
  std::printf("%-22s %-20s %10s %10s  %6s  %6s  %10s  %8s  %s\n", "workload", "loop", "least us", "median us", "x",
              "x med", "warm-up us", "GFLOP/s", "weights");
}

inline void print(Measured const& measured) {
  auto const& first = measured.rows.front();
  for (auto const& row : measured.rows) {
    char speed[32] = "";
    if (measured.operations > 0) std::snprintf(speed, sizeof speed, "%.1f", measured.operations / row.least() / 1000);
    std::printf("%-22s %-20s %10.3f %10.3f  %6.3f  %6.3f  %10.2f  %8s  %s\n",
                &row == &first ? measured.workload.c_str() : "", row.variant.c_str(), row.least(), median(row.samples),
                first.least() / row.least(), median(first.samples) / median(row.samples), row.warm_up, speed,
                !row.same_bits                        ? "DIFFERENT"
                : &row == &first && !row.hash.empty() ? row.hash.c_str()
                                                      : "same");
  }
  for (auto const& row : measured.rows)
    if (!row.note.empty()) std::printf("    %s: %s\n", row.variant.c_str(), row.note.c_str());
  std::fflush(stdout);
}

/// Of loops that were not timed.
inline void print_hashes(Measured const& measured) {
  for (auto const& row : measured.rows)
    std::printf("%-22s %-20s %s  %s\n", &row == &measured.rows.front() ? measured.workload.c_str() : "",
                row.variant.c_str(), row.hash.c_str(), row.same_bits ? "same" : "DIFFERENT");
  std::fflush(stdout);
}

inline void print(CheckpointCost const& cost) {
  auto const per_mb = [&](std::vector<double> const& ms) { return median(ms) / cost.megabytes; };
  std::printf("\ncheckpoint of %.1f MB: the step's thread stands still for %.1f ms (median of %zu), %.3f ms a MB; for "
              "%.1f ms where another thread writes the file, %.3f ms a MB; one copy in memory takes %.3f, one plain "
              "write with fsync %.3f\n",
              cost.megabytes, median(cost.stalls), cost.stalls.size(), per_mb(cost.stalls),
              median(cost.background_stalls), per_mb(cost.background_stalls), per_mb(cost.copies), per_mb(cost.writes));
}

/// JSON of one thing for each workload and variant: `item(row)` gives the text.
template <class Item>
void write_each(std::ofstream& out, char const* name, std::vector<Measured> const& all, Item&& item) {
  out << ",\n\"" << name << "\": {";
  for (auto const& measured : all) {
    out << (&measured == &all.front() ? "\n" : ",\n") << "  \"" << measured.workload << "\": {";
    bool first = true;
    for (auto const& row : measured.rows) {
      auto const text = item(row);
      if (!text.empty()) out << (std::exchange(first, false) ? "\"" : ", \"") << row.variant << "\": " << text;
    }
    out << "}";
  }
  out << "}";
}

inline std::string list(std::vector<double> const& samples) {
  std::string text;
  char number[32];
  for (auto const sample : samples) {
    std::snprintf(number, sizeof number, "%s%.6g", text.empty() ? "" : ", ", sample);
    text += number;
  }
  return "[" + text + "]";
}

inline void write(std::string const& file, Results const& results) {
  std::ofstream out(file);
  auto const quoted = [](std::string const& text) {
    std::string safe;
    for (char const c : text) {
      if (c == '"' || c == '\\') safe += '\\';
      safe += c < ' ' ? ' ' : c;
    }
    return "\"" + safe + "\"";
  };
  auto const truth = [](bool is) { return std::string(is ? "true" : "false"); };
  out << "{\"commit\": " << quoted(results.commit) << ", \"processor\": " << quoted(results.processor)
      << ", \"processor_kind\": " << quoted(results.kind) << ", \"products\": " << quoted(results.products)
      << ", \"libtorch\": " << quoted(results.libtorch) << ", \"load\": " << quoted(results.load)
      << ", \"threads\": " << results.threads << ", \"unit\": \"microseconds a step\"";
  write_each(out, "workloads", results.measured, [](Row const& row) { return list(row.samples); });
  write_each(out, "warm_up", results.measured,
             [](Row const& row) { return list({row.warm_up}).substr(1, list({row.warm_up}).size() - 2); });
  write_each(out, "weights", results.measured,
             [&](Row const& row) { return row.hash.empty() ? std::string() : quoted(row.hash); });
  write_each(out, "same_bits", results.measured, [&](Row const& row) { return truth(row.same_bits); });
  write_each(out, "notes", results.measured,
             [&](Row const& row) { return row.note.empty() ? std::string() : quoted(row.note); });
  out << ",\n\"product_operations\": {";
  bool first = true;
  for (auto const& measured : results.measured)
    if (measured.operations > 0)
      out << (std::exchange(first, false) ? "" : ", ") << quoted(measured.workload) << ": "
          << static_cast<long long>(measured.operations);
  out << "}";
  if (auto const& cost = results.checkpoint)
    out << ",\n\"checkpoint_ms_per_mb\": " << median(cost->stalls) / cost->megabytes
        << ",\n\"checkpoint\": {\"file_mb\": " << cost->megabytes << ", \"stall_ms\": " << list(cost->stalls)
        << ", \"background_stall_ms\": " << list(cost->background_stalls) << ", \"copy_ms\": " << list(cost->copies)
        << ", \"write_ms\": " << list(cost->writes) << "}";
  out << "}\n";
}

}  // namespace bench
