// Microseconds a training step, of each kind of loop on each workload.
//   steps [--quick | --bits] [--threads N] [--only WORKLOAD,...] [--skip WORKLOAD,...] [--json FILE] [--commit HASH]

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "results.hpp"

#include <fulgurite/core/error.hpp>

namespace {

using namespace bench;

constexpr long steps_for_bits = 1000;
/// Captured steps whose products and other kernels may round otherwise than LibTorch's.
constexpr char const* fastest = "fastest";

struct Arguments {
  bool quick = false, bits = false;
  int threads = 1;
  std::vector<std::string> only = {}, skip = {};
  std::string json = "", commit = "unknown";

  bool wants(std::string_view workload) const {
    auto const names = [&](auto const& list) { return std::find(list.begin(), list.end(), workload) != list.end(); };
    return (only.empty() || names(only)) && !names(skip);
  }
};

bool known(std::string const& name) {
  if (name == "checkpoint" ||
      std::any_of(workloads.begin(), workloads.end(), [&](auto const& w) { return w.name == name; }))
    return true;
  std::fprintf(stderr, "there is no workload '%s'; there are", name.c_str());
  for (auto const& workload : workloads)
    std::fprintf(stderr, " %.*s", static_cast<int>(workload.name.size()), workload.name.data());
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
    else if (word == "--bits") to.bits = true;
    else if (word == "--threads" && has_value) understood = (to.threads = std::atoi(argv[++i])) >= 1;
    else if (word == "--only" && has_value) understood = names(to.only, argv[++i]);
    else if (word == "--skip" && has_value) understood = names(to.skip, argv[++i]);
    else if (word == "--json" && has_value) to.json = argv[++i];
    else if (word == "--commit" && has_value) to.commit = argv[++i];
    else {
      std::fprintf(stderr,
                   "'%s': known are --quick, --bits, --threads N, --only WORKLOADS, --skip WORKLOADS, --json FILE and "
                   "--commit HASH\n",
                   argv[i]);
      understood = false;
    }
    if (!understood) return false;
  }
  return true;
}

using Kinds = std::vector<std::pair<std::string, Loops>>;

/// Each kind of loop with LibTorch's matrix products, and, where there are others, with those. A quick run leaves out
/// what only explains the rest. The first loop comes twice: how far two equal loops are apart shows what is noise.
Kinds all_kinds(Arguments const& arguments) {
  constexpr auto libtorch = fulgurite::Matmul::libtorch, faster = fulgurite::Matmul::faster;
  bool const products = has_products(), brief = arguments.quick && products;
  Kinds kinds{{"raw", raw_loops(libtorch)}};
  if (!arguments.bits) kinds.emplace_back("raw again", raw_loops(libtorch));
  if (products) kinds.emplace_back("raw + products", raw_loops(faster));
  if (!brief && !arguments.bits) kinds.emplace_back("hand-tuned", hand_tuned_loops());
  kinds.emplace_back("trainer", trainer_loops(libtorch));
  if (products && !brief) kinds.emplace_back("trainer + products", trainer_loops(faster));
  if (!brief) kinds.emplace_back("fast", fast_loops(libtorch));
  if (products) kinds.emplace_back("fast + products", fast_loops(faster));
  if (!brief) kinds.emplace_back("captured", captured_loops(libtorch));
  if (products) kinds.emplace_back("captured + products", captured_loops(faster));
  if (arguments.bits) return kinds;
  if (products) kinds.emplace_back(fastest, captured_loops(fulgurite::Matmul::fastest));
  kinds.insert(kinds.end(), {{"twin", twin_loops()},
                             {"silent", silent_loops()},
                             {"silent again", silent_loops()},
                             {"logged", logged_loops()},
                             {"twin silent", twin_silent_loops()},
                             {"twin logged", twin_logged_loops()}});
  return kinds;
}

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
  Results results{arguments.commit,
                  first_of("/proc/cpuinfo", "model name"),
                  kind_of_processor(),
                  prepare_libtorch(arguments.threads),
                  first_of("/proc/loadavg", ""),
                  arguments.threads};
  print_head(results);
  auto const kinds = all_kinds(arguments);
  double spread = 0;
  bool same = true;
  for (auto const& workload : workloads) {
    if (!arguments.wants(workload.name)) continue;
    auto const variants = variants_of(std::string(workload.name), kinds);
    if (variants.empty()) continue;
    long const steps = arguments.quick ? std::max(2L, workload.steps * 15 / 100) : workload.steps;
    auto& measured = results.measured.emplace_back(
        std::string(workload.name), arguments.bits
                                        ? train(variants, steps_for_bits)
                                        : measure(variants, workload.warm_up, steps, arguments.quick ? 5 : 11));
    if (arguments.bits) {
      print_hashes(measured);
    } else {
      if (workload.multiplies) measured.operations = product_operations(measured.workload);
      print(measured);
      spread = std::max(spread, std::abs(measured.rows[0].least() / measured.rows[1].least() - 1));
    }
    // Optimizers by hand and the fastest kernels may round otherwise, which is printed; the others must not.
    for (auto const& row : measured.rows)
      same = same && (row.same_bits || row.variant == "hand-tuned" || row.variant == fastest);
  }
  if (has_products()) std::printf("\n%s\n", (results.products = products_so_far()).c_str());
  if (arguments.wants("checkpoint") && !arguments.bits) {
    results.checkpoint = measure_checkpoint(arguments.quick ? 4 : 11);
    print(*results.checkpoint);
  }
  if (arguments.only.empty())
    std::printf("\nTwo processes over gloo are measured by another program: tools/dev bench gloo\n");
  if (!results.measured.empty() && !arguments.bits)
    std::printf("Two equal loops (the first two of a workload) differ by up to %.1f %%: no ratio nearer to 1 than that "
                "says anything. Load at the end %s\n",
                100 * spread, first_of("/proc/loadavg", "").c_str());
  if (!arguments.json.empty()) write(arguments.json, results);
  if (!same) std::fprintf(stderr, "weights that must be equal are not: see DIFFERENT above\n");
  return same ? 0 : 1;
}
