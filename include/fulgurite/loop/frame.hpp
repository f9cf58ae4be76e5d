#pragma once
// What surrounds every run: preparation, setup, teardown, and the path of an exception. Callbacks before the model throughout.

#include <cstdio>
#include <exception>
#include <string>
#include <type_traits>

#include <fulgurite/core/error.hpp>
#include <fulgurite/hook/pack.hpp>
#include <fulgurite/loop/checkpointing.hpp>
#include <fulgurite/loop/context.hpp>
#include <fulgurite/loop/tell.hpp>

namespace fulgurite {

/// How a run ended, as loggers hear it.
enum class Status : std::uint8_t { success, failed };

namespace loop {

/// An event of the data module, if it has it.
template <class Hook, class Module, class... Args>
void tell_module(Module& module, Args&... args) {
  if constexpr (Listens<Hook, Module, Args...>) invoke<Hook>(module, args...);
}

/// One hook of data module (unless the model is its own), callbacks, model.
template <class Hook, class R, class Pack, class Source, class Ctx>
void tell_all(State<R>& run, Pack& pack, Source& source, Ctx& ctx) {
  if constexpr (!std::is_same_v<std::remove_cvref_t<decltype(source.module())>, typename R::Model>) tell_module<Hook>(source.module(), ctx);
  tell<Hook>(run, pack, ctx);
}

template <class Pack>
void finalize_loggers(Pack& pack, Status status) {
  pack.each([&](auto& callback) {
    if constexpr (requires { callback.finalize(status); }) callback.finalize(status);
  });
}

/// A rule that only the machine can decide: with a device chosen at run time, scaling still needs a GPU.
template <class R>
void check_device(State<R>& run) {
  if constexpr (judge::needs_gpu<typename R::Strategy>() && R::Strategy::on_gpu == Known::at_run_time)
    if (!run.strategy.is_on_gpu())
      throw Error("fulgurite.policy.strategy_needs_gpu", "this strategy runs on GPUs alone, and this machine has none: use SingleDevice{cpu}");
  if constexpr (R::Precision::scales_loss && R::Strategy::on_gpu == Known::at_run_time)
    if (!run.strategy.is_on_gpu())
      throw Error("fulgurite.policy.fp16_needs_gpu",
                  "Fp16Mixed scales the loss, which needs a GPU, and this machine has none: use Bf16Mixed, or a CUDA device");
}

/// prepare_data, setup, configure_model, then the strategy takes the model.
template <class R, class Pack, class Source, class Ctx>
void set_up(State<R>& run, Pack& pack, Source& source, Ctx& ctx) {
  check_device(run);
  auto& module = source.module();
  using Module = std::remove_cvref_t<decltype(module)>;
  if constexpr (requires { module.prepare_data(); }) module.prepare_data();
  if constexpr (!std::is_same_v<Module, typename R::Model>)
    if constexpr (requires { run.model->prepare_data(); }) run.model->prepare_data();
  tell_all<hook::setup>(run, pack, source, ctx);
  if constexpr (Listens<hook::configure_model, typename R::Model, Ctx>) invoke<hook::configure_model>(*run.model, ctx);
  run.strategy.setup(*run.model, run.precision);
}

template <class R, class Pack, class Source>
void failed(State<R>& run, Pack& pack, Source& source, std::exception const& error) {
  run.count_training = nullptr;
  // The first error is the one to be thrown on; what fails while cleaning up after it is told, and the rest is still done.
  auto const still = [](auto&& cleanup) {
    try {
      cleanup();
    } catch (std::exception const& second) {
      std::fprintf(stderr, "fulgurite: after an exception, this failed too: %s\n", second.what());
    } catch (...) {
      std::fprintf(stderr, "fulgurite: after an exception, something else was thrown, which is no std::exception\n");
    }
  };
  Context<R, phase::Fit> ctx(run);
  pack.each([&](auto& callback) { still([&] { tell_module<hook::on_exception>(callback, error, ctx); }); });
  still([&] { tell_module<hook::on_exception>(*run.model, error, ctx); });
  if constexpr (!std::is_same_v<std::remove_cvref_t<decltype(source.module())>, typename R::Model>)
    still([&] { tell_module<hook::on_exception>(source.module(), error, ctx); });
  still([&] { tell_module<hook::on_exception>(run.strategy, error, ctx); });
  still([&] {
    if (run.optimizers) write_now(run, pack);
  });
  run.requests.clear();
  run.posted.clear();
  still([&] { finalize_loggers(pack, Status::failed); });
  still([&] { run.strategy.teardown(*run.model); });
  run.facts = {};
  run.progress.batch = run.progress.window_start = 0;  // a later fit begins the epoch anew
}

/// Runs `body`. On an exception: on_exception for callbacks and model, requested checkpoints written, loggers told, then it goes on its
/// way. No end or teardown hook runs then.
template <class R, class Pack, class Source, class Body>
decltype(auto) framed(State<R>& run, Pack& pack, Source& source, Body&& body) {
  [[maybe_unused]] auto const algorithms = R::Backend::algorithms(run.options.deterministic, run.options.benchmark);
  try {
    return body();
  } catch (std::exception const& error) {
    failed(run, pack, source, error);
    throw;
  } catch (...) {
    Error const error("fulgurite.exception.unknown", "what was thrown is no std::exception: derive it from one, so that its reason can be told");
    failed(run, pack, source, error);
    throw;
  }
}

}  // namespace loop
}  // namespace fulgurite
