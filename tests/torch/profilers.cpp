// Profilers on LibTorch: what its own profiler records of a fit, and that nothing of the training changes by it.

#include "fixtures.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <fulgurite/callback/simple_profiler.hpp>
#include <fulgurite/fulgurite.hpp>
#include <fulgurite/torch/profile/advanced_profiler.hpp>
#include <fulgurite/torch/profile/nvtx_profiler.hpp>

using namespace fulgurite;

namespace {

struct Watched : fixtures::Net {
  torch::Tensor training_step(auto const& batch, auto& ctx) {
    auto const watched = ctx.profile("forward pass");
    return torch::mse_loss(forward(batch.data), batch.target);
  }
  void validation_step(data::Batch const& batch) { forward(batch.data); }
  auto configure_optimizers() { return torch::optim::SGD(parameters(), 0.1); }
};

std::vector<data::Batch> batches(int n) {
  auto generator = at::detail::createCPUGenerator(5);
  std::vector<data::Batch> all;
  for (int i = 0; i != n; ++i) all.push_back({torch::randn({8, 4}, generator), torch::randn({8, 1}, generator)});
  return all;
}

struct Folder {
  std::filesystem::path path = std::filesystem::temp_directory_path() / ("profilers" + std::to_string(::getpid()));
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
};

template <class... Cs>
auto trainer_in(std::filesystem::path const& root, Cs... callbacks) {
  return make_trainer<Watched>(TrainerOptions{.max_epochs = 2, .default_root_dir = root}, SingleDevice{cpu}, Float32{},
                               Automatic{}, std::move(callbacks)..., NoDefaults{});
}

long calls(std::vector<report::OperatorTime> const& of, std::string const& name) {
  auto const at = std::ranges::find(of, name, &report::OperatorTime::name);
  return at == of.end() ? 0 : at->calls;
}

}  // namespace

TEST_CASE("AdvancedProfiler records the operators of the steps that it was told, and the training stays as it is") {
  Folder const folder;
  auto const train = batches(5), val = batches(1);
  torch::manual_seed(3);
  Watched plain, recorded;
  fixtures::put_weights(recorded, fixtures::copied_weights(plain));
  auto unwatched = trainer_in(folder.path);
  unwatched.fit(plain, train, val);

  // Batches 2 and 3, then 6 and 7 of ten: the second recording begins in one epoch and ends in the next.
  auto trainer =
      trainer_in(folder.path, AdvancedProfiler{{.wait = 1, .warmup = 1, .active = 2, .repeat = 2, .stream = nullptr}},
                 SimpleProfiler{{.stream = nullptr}});
  trainer.fit(recorded, train, val);
  auto const& profiler = trainer.callback<AdvancedProfiler>();
  auto const& found = profiler.operators();
  CHECK(calls(found, "aten::mse_loss") == 4);
  CHECK(calls(found, "autograd::engine::evaluate_function: MseLossBackward0") == 4);
  CHECK(calls(found, "forward pass") == 4);
  CHECK(calls(found, "[Strategy]SingleDevice.backward") == 4);
  for (char const* step : {"ProfilerStep#2", "ProfilerStep#3", "ProfilerStep#6", "ProfilerStep#7"}) {
    INFO(step);
    CHECK(calls(found, step) == 1);
  }
  CHECK(calls(found, "ProfilerStep#4") + calls(found, "ProfilerStep#8") == 0);
  CHECK(std::ranges::any_of(found, [](auto const& row) { return row.bytes > 0; }));
  for (auto const& row : found) CHECK((row.own >= 0 && row.own <= row.total));

  REQUIRE(profiler.traces().size() == 2);
  CHECK(profiler.traces()[1].filename() == "fit-profile-6.pt.trace.json");
  std::ifstream in(profiler.traces()[1]);
  std::string const trace{std::istreambuf_iterator<char>(in), {}};
  for (char const* name :
       {"\"traceEvents\"", "aten::addmm", "ProfilerStep#7", "[Strategy]SingleDevice.training_step"}) {
    INFO(name);
    CHECK(trace.find(name) != std::string::npos);
  }

  auto const before = fixtures::copied_weights(plain), after = fixtures::copied_weights(recorded);
  for (std::size_t i = 0; i != before.size(); ++i) CHECK(fixtures::same_bits(before[i], after[i]));
}

TEST_CASE("AdvancedProfiler keeps what it has where a run ends early, and refuses a schedule without a batch") {
  Folder const folder;
  auto const val = batches(4);
  Watched net;
  auto trainer = trainer_in(folder.path, AdvancedProfiler{{.wait = 0, .warmup = 0, .active = 100, .stream = nullptr}});
  trainer.validate(net, val);
  auto const& profiler = trainer.callback<AdvancedProfiler>();
  CHECK(calls(profiler.operators(), "[Strategy]SingleDevice.validation_step") == 4);
  REQUIRE(profiler.traces().size() == 1);
  CHECK(profiler.traces()[0].filename() == "validate-profile-0.pt.trace.json");
  auto brief = trainer_in(folder.path, AdvancedProfiler{{.wait = 50, .warmup = 7, .stream = nullptr}});
  brief.validate(net, val);
  CHECK(brief.callback<AdvancedProfiler>().operators().empty());
  CHECK(brief.warnings().back().starts_with("[fulgurite.callback.profiler_too_short] "));
  CHECK(brief.warnings().back().ends_with("had 4 batches, and wait + warmup leave out the first 57"));

  auto const refused = [](AdvancedProfilerOptions options) {
    try {
      AdvancedProfiler{options};
    } catch (Error const& error) { return std::string(error.identifier()); }
    return std::string();
  };
  CHECK(refused({.active = 0}) == "fulgurite.callback.profiler_schedule");
  CHECK(refused({.wait = -1}) == "fulgurite.callback.profiler_schedule");
  CHECK(refused({.filename = ""}) == "fulgurite.callback.profiler_filename");
}
