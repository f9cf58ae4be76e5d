#pragma once
// Telling of what surrounds every run: to the data module, callbacks and the model; to loggers, how it has ended.

#include <cstdint>
#include <type_traits>

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
  if constexpr (!std::is_same_v<std::remove_cvref_t<decltype(source.module())>, typename R::Model>)
    tell_module<Hook>(source.module(), ctx);
  tell<Hook>(run, pack, ctx);
}

template <class Pack>
void finalize_loggers(Pack& pack, Status status) {
  pack.each([&](auto& callback) {
    if constexpr (requires { callback.finalize(status); }) callback.finalize(status);
  });
}

}  // namespace loop
}  // namespace fulgurite
