// Microseconds a training step, of each kind of loop on each workload.
//   steps [--quick] [--only WORKLOAD,...] [--skip WORKLOAD,...] [--json FILE] [--commit HASH]

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "results.hpp"

namespace {

using namespace bench;

struct Arguments {
  bool quick = false;
  std::vector<std::string> only = {}, skip = {};
  std::string json = "", commit = "unknown";

  bool wants(std::string_view workload) const {
    auto const names = [&](auto const& list) { return std::find(list.begin(), list.end(), workload) != list.end(); };
    return (only.empty() || names(only)) && !names(skip);
  }
};

bool known(std::string const& name) {
  if (name == "checkpoint" || std::any_of(workloads.begin(), workloads.end(), [&](auto const& w) { return w.name == name; })) return true;
  std::fprintf(stderr, "there is no workload '%s'; there are", name.c_str());
  for (auto const& workload : workloads) std::fprintf(stderr, " %.*s", static_cast<int>(workload.name.size()), workload.name.data());
  std::fprintf(stderr, " checkpoint\n");
  return false;
}

bool read(Arguments& to, int argc, char** argv) {
  auto const names = [](std::vector<std::string>& list, std::string const& value) {
    for (std::size_t from = 0; from <= value.size();) {
      auto const end = std::min(value.find(',', from), value.size());
      list.push_back(value.substr(from, end - from));
      from = end + 1;
    }
    return std::all_of(list.begin(), list.end(), known);
  };
  for (int i = 1; i != argc; ++i) {
    std::string_view const word = argv[i];
    bool const has_value = i + 1 != argc;
    bool understood = true;
    if (word == "--quick") to.quick = true;
    else if (word == "--only" && has_value) understood = names(to.only, argv[++i]);
    else if (word == "--skip" && has_value) understood = names(to.skip, argv[++i]);
    else if (word == "--json" && has_value) to.json = argv[++i];
    else if (word == "--commit" && has_value) to.commit = argv[++i];
    else {
      std::fprintf(stderr, "'%s': known are --quick, --only WORKLOADS, --skip WORKLOADS, --json FILE and --commit HASH\n", argv[i]);
      understood = false;
    }
    if (!understood) return false;
  }
  return true;
}

using Kinds = std::vector<std::pair<std::string, Loops>>;

/// Those of the kinds that have this workload.
std::vector<std::pair<std::string, Loop>> variants_of(std::string const& workload, Kinds const& kinds) {
  std::vector<std::pair<std::string, Loop>> variants;
  for (auto const& [kind, loops] : kinds)
    if (auto const found = loops.find(workload); found != loops.end()) variants.emplace_back(kind, found->second());
  return variants;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  if (!read(arguments, argc, argv)) return 2;
  Results results{arguments.commit, first_of("/proc/cpuinfo", "model name"), prepare_libtorch(), first_of("/proc/loadavg", "")};
  print_head(results);

  // The first loop twice: how far two equal loops are apart tells what is noise.
  Kinds const kinds{{"raw", raw_loops()},
                    {"raw again", raw_loops()},
                    {"hand-tuned", hand_tuned_loops()},
                    {"trainer", trainer_loops()},
                    {"fast", fast_loops()},
                    {"captured", captured_loops()},
                    {"twin", twin_loops()},
                    {"silent", silent_loops()},
                    {"silent again", silent_loops()},
                    {"logged", logged_loops()},
                    {"twin silent", twin_silent_loops()},
                    {"twin logged", twin_logged_loops()}};
  double spread = 0;
  bool same = true;
  for (auto const& workload : workloads) {
    if (!arguments.wants(workload.name)) continue;
    long const steps = arguments.quick ? std::max(2L, workload.steps * 15 / 100) : workload.steps;
    results.measured.push_back(
        {std::string(workload.name), measure(variants_of(std::string(workload.name), kinds), workload.warm_up, steps, arguments.quick ? 5 : 11)});
    auto const& rows = results.measured.back().rows;
    print(results.measured.back());
    spread = std::max(spread, std::abs(rows[0].least() / rows[1].least() - 1));
    // Optimizers by hand and over flat buffers may round otherwise, which is printed; the others must not.
    for (auto const& row : rows) {
      bool const may_differ = row.variant == "hand-tuned" || row.variant == "fast";
      same = same && (row.variant == "captured" ? row.as_fast : row.same_bits || may_differ);
    }
  }
  if (arguments.wants("checkpoint")) {
    results.checkpoint = measure_checkpoint(arguments.quick ? 4 : 11);
    print(*results.checkpoint);
  }
  if (arguments.only.empty()) std::printf("\ngloo (W8) is left out: there is no strategy yet that trains with several processes.\n");
  if (!results.measured.empty())
    std::printf("Two equal loops (the first two of a workload) differ by up to %.1f %%: no ratio nearer to 1 than that says anything. Load at the end %s\n",
                100 * spread, first_of("/proc/loadavg", "").c_str());
  if (!arguments.json.empty()) write(arguments.json, results);
  if (!same) std::fprintf(stderr, "weights that must be equal are not: see DIFFERENT above\n");
  return same ? 0 : 1;
}
