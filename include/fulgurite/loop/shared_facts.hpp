#pragma once
// Part of a run's state under several ranks: what they have yet to tell each other, and what they were told.

#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include <fulgurite/concept/traits.hpp>

namespace fulgurite::loop {

/// Several processes train one model, so that whatever changes its course has to be decided by all of them.
template <class R>
inline constexpr bool shares = R::Strategy::is_distributed;

/// Each of them runs a part of the model, all on the same batches: what is logged is the last rank's, gradients are
/// each rank's own, and loaders are not shared out.
template <class R>
inline constexpr bool splits_model = judge::splits_model<typename R::Strategy>();

struct SharedFacts {
  // Of this rank alone. The others hear it with the next gradients, or where all of them meet.
  bool skips = false;         ///< on_train_batch_start answered skip_epoch
  bool not_finite = false;    ///< a loss of the window at hand is not
  double loss = 0;            ///< that loss
  bool in_gradients = false;  ///< not the loss: a gradient of this rank's part of the model
  int signal = 0;             ///< by which the system has asked for the program's end
  std::uint64_t stepped = 0;  ///< a bit for each optimizer that was stepped by hand

  // Known to all.
  bool epoch_ends = false;  ///< with the batch at hand: a rank has no further one
  bool skipped = false;     ///< the epoch was left by a rank's skip_epoch: no validation follows
  bool validates = false;   ///< after the step at hand, as rank 0's clock says
  int ends_by = 0;          ///< the signal by which all end
  bool rang = false;        ///< with the step at hand: a moment has come that somebody waits for, by rank 0's clock

  /// The first of those moments. Each is named anew where it is asked for.
  double alarm = std::numeric_limits<double>::infinity();

  std::vector<std::string> parts = {};  ///< of the file at hand: what each rank alone keeps, as text

  bool syncs = true;  ///< manual optimization: gradients are exchanged after each backward; all ranks ask for the same

  bool together = false;  ///< the exception at hand was thrown by every rank
  bool alone = false;     ///< this rank has failed by itself: nothing may be asked of the others any more
};

/// In place of them with one process.
struct NothingShared {};

template <class R>
using SharedOf = std::conditional_t<shares<R>, SharedFacts, NothingShared>;

}  // namespace fulgurite::loop
