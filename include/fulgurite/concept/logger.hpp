#pragma once
// What makes a callback a logger.

#include <type_traits>

#include <fulgurite/concept/traits.hpp>
#include <fulgurite/hook/hooks.hpp>

namespace fulgurite {

namespace judge {

/// It is given rows: LearningRateMonitor and the like have where to write.
template <class T>
consteval bool takes_rows() {
  if constexpr (std::is_class_v<T> && !std::is_final_v<T>) return hook::log_metrics::named<T>;
  else return false;
}
/// It keeps a record of the rows. One that draws them stands beside the logger that is added by default.
template <class T>
consteval bool is_logger() {
  return takes_rows<T>() && !draws_rows<T>();
}

}  // namespace judge

/// A callback that takes rows: `void log_metrics(std::span<Scalar const> row, long step)`. It may also have
/// `log_hyperparams` and `finalize(Status)`; in `setup(ctx)` it makes its folder and says so by
/// `ctx.set_log_dir(folder)`. Only rank 0 is given rows. One that only draws
/// them says `static constexpr bool draws_rows = true`: make_trainer then adds its logger all the same.
template <class T>
concept LoggerLike = judge::takes_rows<T>();

}  // namespace fulgurite
