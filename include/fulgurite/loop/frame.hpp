#pragma once
// What surrounds every run: preparation and setup before it, the path of an exception around it.

#include <string>
#include <type_traits>

#include <fulgurite/core/error.hpp>
#include <fulgurite/loop/context.hpp>
#include <fulgurite/loop/failure.hpp>
#include <fulgurite/loop/names.hpp>
#include <fulgurite/loop/shared_decisions.hpp>
#include <fulgurite/loop/tell_all.hpp>

namespace fulgurite::loop {

/// A rule that only the machine can decide: with a device chosen at run time, scaling still needs a GPU.
template <class R>
void check_device(State<R>& run) {
  if constexpr (judge::needs_gpu<typename R::Strategy>() && R::Strategy::on_gpu == Known::at_run_time)
    if (!run.parts.strategy.is_on_gpu())
      throw Error("fulgurite.policy.strategy_needs_gpu",
                  "this strategy runs on GPUs alone, and this machine has none: use SingleDevice{cpu}");
  if constexpr (R::Precision::scales_loss && R::Strategy::on_gpu == Known::at_run_time)
    if (!run.parts.strategy.is_on_gpu())
      throw Error(
          "fulgurite.policy.fp16_needs_gpu",
          "Fp16Mixed scales the loss, which needs a GPU, and this machine has none: use Bf16Mixed, or a CUDA device");
}

/// prepare_data, setup, configure_model, then, when `file.load()` has put a file's weights into the model, the strategy
/// takes it. `file.find()` opens the file, so that setup knows whose run goes on.
template <class R, class Pack, class Source, class Ctx, class File>
void set_up(State<R>& run, Pack& pack, Source& source, Ctx& ctx, File&& file) {
  run.own_actions.told_to(pack);
  run.made.log_dir_before = run.made.log_dir;
  run.made.metrics_file_before = run.made.outcome.metrics_file;
  check_device(run);
  auto& module = source.module();
  using Module = std::remove_cvref_t<decltype(module)>;
  if constexpr (requires { module.prepare_data(); } || requires { run.parts.model->prepare_data(); })
    once_a_machine(run, "prepare_data", [&] {
      if constexpr (requires { module.prepare_data(); }) module.prepare_data();
      if constexpr (!std::is_same_v<Module, typename R::Model>)
        if constexpr (requires { run.parts.model->prepare_data(); }) run.parts.model->prepare_data();
    });
  file.find();
  tell_all<hook::setup>(run, pack, source, ctx);
  if constexpr (shares<R>) run.made.log_dir = of_first_rank(run, run.made.log_dir.string());  // loggers make it there
  if constexpr (Listens<hook::configure_model, typename R::Model, Ctx>)
    invoke<hook::configure_model>(*run.parts.model, ctx);
  file.load();
  run.parts.strategy.setup(*run.parts.model, run.parts.precision);
}

/// Runs `body` as `rescued` does, with the algorithms that the options ask for: a whole run but fit, which lasts from
/// open to close.
template <class R, class Pack, class Source, class Body>
decltype(auto) framed(State<R>& run, Pack& pack, Source& source, Body&& body) {
  [[maybe_unused]] auto const algorithms =
      R::Backend::algorithms(run.asked.options.deterministic, run.asked.options.benchmark);
  return rescued(run, pack, source, body);
}

}  // namespace fulgurite::loop
