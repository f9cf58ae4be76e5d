// Microseconds a training step, of each kind of loop on each workload: `steps [--quick] [--only WORKLOAD] [--json FILE] [--commit HASH]`.

#include <cmath>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>

#include "workloads.hpp"

namespace {

using namespace bench;

struct Arguments {
  Protocol protocol = {};
  std::string only = "", json = "", commit = "unknown";
};

bool read(Arguments& to, int argc, char** argv) {
  for (int i = 1; i != argc; ++i) {
    std::string_view const word = argv[i];
    bool const has_value = i + 1 != argc;
    if (word == "--quick") to.protocol = {.warm_up = 100, .rounds = 5, .steps_factor = 0.1};
    else if (word == "--only" && has_value) to.only = argv[++i];
    else if (word == "--json" && has_value) to.json = argv[++i];
    else if (word == "--commit" && has_value) to.commit = argv[++i];
    else return std::fprintf(stderr, "'%s': known are --quick, --only WORKLOAD, --json FILE and --commit HASH\n", argv[i]), false;
  }
  return true;
}

std::string first_of(char const* file, std::string_view key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(key)) {
      auto const colon = line.find(": ");
      return colon == std::string::npos ? line : line.substr(colon + 2);
    }
  return "unknown";
}

struct Measured {
  std::string workload;
  std::vector<Row> rows;
};

void print(Measured const& measured) {
  auto const& raw = measured.rows.front();
  for (auto const& row : measured.rows)
    std::printf("%-16s %-14s %9.1f %9.1f  %6.3f  %6.3f  %9.1f  %s\n", &row == &raw ? measured.workload.c_str() : "", row.variant.c_str(), row.least(),
                row.median(), raw.least() / row.least(), raw.median() / row.median(), row.warm_up, row.same_bits ? "same" : "DIFFERENT");
  std::fflush(stdout);
}

void write(std::string const& file, std::vector<Measured> const& all, std::string const& commit) {
  std::ofstream out(file);
  out << "{\"commit\": \"" << commit << "\", \"processor\": \"" << first_of("/proc/cpuinfo", "model name") << "\", \"libtorch\": \"" << TORCH_VERSION
      << "\", \"unit\": \"microseconds a step\", \"workloads\": {";
  for (auto const& measured : all) {
    out << (&measured == &all.front() ? "\n" : ",\n") << "  \"" << measured.workload << "\": {";
    for (auto const& row : measured.rows) {
      out << (&row == &measured.rows.front() ? "" : ", ") << "\"" << row.variant << "\": [";
      for (auto const& sample : row.samples) out << (&sample == &row.samples.front() ? "" : ", ") << sample;
      out << "]";
    }
    out << "}";
  }
  out << "\n}}\n";
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  if (!read(arguments, argc, argv)) return 2;
  at::set_num_threads(1);
  std::printf("commit %s, LibTorch %s, %s, load %s\n\n", arguments.commit.c_str(), TORCH_VERSION, first_of("/proc/cpuinfo", "model name").c_str(),
              first_of("/proc/loadavg", "").c_str());
  std::printf("%-16s %-14s %9s %9s  %6s  %6s  %9s  %s\n", "workload", "loop", "least us", "median us", "x raw", "x med", "warm-up", "weights");

  // The raw loop twice: how far two equal loops are apart tells what is noise.
  std::vector<std::pair<std::string, Loops>> const kinds{{"raw", raw_loops()}, {"raw again", raw_loops()}, {"trainer", trainer_loops()}, {"twin", twin_loops()}};
  std::vector<Measured> all;
  double spread = 0;
  bool same = true;
  each_workload([&]<class Net, class Optimizer>(Workload<Net, Optimizer> const& workload) {
    if (!arguments.only.empty() && arguments.only != workload.name) return;
    std::vector<std::pair<std::string, Loop>> variants;
    for (auto const& [kind, loops] : kinds) variants.emplace_back(kind, loops.at(workload.name));
    all.push_back({workload.name, measure(variants, Net::steps, arguments.protocol)});
    print(all.back());
    spread = std::max(spread, std::abs(all.back().rows[0].least() / all.back().rows[1].least() - 1));
    for (auto const& row : all.back().rows) same = same && row.same_bits;
  });
  std::printf("\nTwo equal loops (raw, raw again) differ by up to %.1f %%: no ratio nearer to 1 than that says anything.\n", 100 * spread);
  if (!arguments.json.empty()) write(arguments.json, all, arguments.commit);
  return same ? 0 : 1;
}
