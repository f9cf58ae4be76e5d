#pragma once
// A context of no run, for what a callback or a logger asks of one.

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fulgurite/loop/context.hpp>

namespace toy {

struct LooseRun : fulgurite::loop::RunCore {
  int number = 0;  ///< the process's, in place of a strategy's

  LooseRun() : RunCore(fulgurite::loop::Asked({}), calls) {}

 private:
  static int number_of(RunCore const& core);
  static constexpr fulgurite::loop::ProgramCalls calls{
      .model_name = "Net",
      .is_distributed = false,
      .splits_model = false,
      .steps_by_batch = true,
      .is_recurrent = false,
      .keeps_questions = false,
      .model = nullptr,
      .rank = &number_of,
      .world = [](RunCore const&) { return 1; },
      .of_first_rank = [](RunCore&, std::string mine) { return mine; },
      .has_come = [](RunCore&, double) { return false; },
      .signal_of_all = [](RunCore&, int mine) { return mine; },
      .signal_here = [](RunCore&, int mine) { return mine; },
      .unchecked_steps = [](RunCore const&) { return 0L; },
      .device_stats = [](RunCore&) { return std::vector<std::pair<std::string, double>>(); },
      .model_rows = [](RunCore&, int, bool, std::vector<fulgurite::report::ModelRow>&) {},
      .reduce = [](RunCore&, std::span<double>, std::span<fulgurite::Reduce const>) { return true; },
      .switches = [](void*) { return fulgurite::Switches(); },
      .set_switches = [](void*, fulgurite::Switches const&) {},
      .eval_modules = [](void*) { return std::vector<std::string>(); },
      .set_eval_modules = [](void*, std::vector<std::string> const&) {},
      .has_other_weights = [](RunCore&) { return false; }};
};

inline int LooseRun::number_of(RunCore const& core) { return static_cast<LooseRun const&>(core).number; }

struct HasLooseRun {
  LooseRun run{};
};

class LooseContext : public HasLooseRun, public fulgurite::Context {
 public:
  LooseContext() : Context(run, fulgurite::loop::MetricSource::training) {}

  fulgurite::TrainerOptions& given() { return run.asked.options; }
  /// All that was said as a warning.
  std::string said() const {
    std::string all;
    for (auto const& sentence : run.said.all()) all += sentence + "\n";
    return all;
  }
};

}  // namespace toy
