#pragma once
// What a ModelCheckpoint watches: a metric, or none.

#include <concepts>
#include <string_view>

#include <fulgurite/callback/watch.hpp>

namespace fulgurite {

/// Stands in place of a metric where none is watched: the latest file is kept.
struct NoMonitor {
  using metric = NoMonitor;
  static constexpr std::string_view name() { return {}; }
};

namespace checkpointing {
/// Whether the first argument is a metric to watch.
template <class M>
inline constexpr bool watches = Watchable<M> && !std::same_as<M, NoMonitor>;
}  // namespace checkpointing

}  // namespace fulgurite
