#pragma once
// What makes a callback a logger.

#include <type_traits>

#include <fulgurite/hook/hooks.hpp>

namespace fulgurite {

namespace judge {

template <class T>
consteval bool is_logger() {
  if constexpr (std::is_class_v<T> && !std::is_final_v<T>) return hook::log_metrics::named<T>;
  else return false;
}

}  // namespace judge

/// A callback that takes rows: `void log_metrics(std::span<Scalar const> row, long step)`. It may also have
/// `log_hyperparams` and `finalize(Status)`; in `setup(ctx)` it makes its folder and says so by
/// `ctx.set_log_dir(folder)`. Only rank 0 is given rows.
template <class T>
concept LoggerLike = judge::is_logger<T>();

}  // namespace fulgurite
