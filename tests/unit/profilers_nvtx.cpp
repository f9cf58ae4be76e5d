// NVTX ranges, as a tool of NVIDIA's sees them: a tool may be linked into the program, and this file is one. It needs
// neither a GPU nor LibTorch, but the header of NVTX; without that the profiler says so.
#include <fulgurite/torch/profile/nvtx_profiler.hpp>

#if __has_include(<nvtx3/nvToolsExt.h>)

#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <string>
#include <vector>

#include "callback_run.hpp"
#include "models.hpp"

using namespace fulgurite;

namespace {
std::vector<std::string> open_ranges, all_ranges;
int too_many_pops = 0;

int push(char const* name) {
  open_ranges.emplace_back(name);
  all_ranges.emplace_back(name);
  return static_cast<int>(open_ranges.size()) - 1;
}
int pop() {
  if (open_ranges.empty()) return ++too_many_pops, -2;
  open_ranges.pop_back();
  return static_cast<int>(open_ranges.size());
}
int begin_tool(NvtxGetExportTableFunc_t table_of) {
  auto const* const callbacks = static_cast<NvtxExportTableCallbacks const*>(table_of(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned int size = 0;
  if (callbacks == nullptr || callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &size) == 0) return 0;
  *table[NVTX_CBID_CORE_RangePushA] = reinterpret_cast<NvtxFunctionPointer>(&push);
  *table[NVTX_CBID_CORE_RangePop] = reinterpret_cast<NvtxFunctionPointer>(&pop);
  return 1;
}

long times(std::string const& name) { return std::ranges::count(all_ranges, name); }
}  // namespace

TEST_CASE("NVTX: a range for each action, closed when it ends, also where a step throws") {
  InitializeInjectionNvtx2_fnptr = &begin_tool;  // looked at by NVTX with its first call
  Scripted model{.script = {3, 2}};
  fitted(model, quick(2), 4, NvtxProfiler{});
  CHECK(open_ranges.empty());
  CHECK(times("run_training_epoch") == 2);
  CHECK(times("run_training_batch") == 8);
  CHECK(times("[Strategy]SavingDevice.training_step") == 8);
  CHECK(times("[_TrainingEpochLoop].train_dataloader_next") == 8);  // the end of an epoch is no batch
  CHECK(std::ranges::find(all_ranges, "run_validation") != all_ranges.end());

  Scripted fails{.fails_at = 2};
  CHECK(error_of([&] { fitted(fails, quick(1), 4, NvtxProfiler{}); }) != "");
  CHECK(open_ranges.empty());
  CHECK(too_many_pops == 0);
}

#else

#include "callback_run.hpp"
#include "models.hpp"

TEST_CASE("NVTX: where the library was compiled without its header, the fit's start says so") {
  Scripted model{.script = {3, 2}};
  CHECK(toy::refusal([&] { fitted(model, quick(1), 4, fulgurite::NvtxProfiler{}); }) == "fulgurite.callback.nvtx");
}

#endif
