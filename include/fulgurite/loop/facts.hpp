#pragma once
// Part of a run's state: facts of the batch, the loader and the stage at hand. Beside `Progress`, which counts and is
// saved, they say where a run is; nothing of them outlives it.

#include <cstddef>
#include <optional>

#include <fulgurite/loop/run_key.hpp>

namespace fulgurite::loop {

/// Set by the loops and read through contexts.
struct Facts {
  Stage stage = Stage::fit;
  long batch_idx = 0;
  long batch_size = 0;
  bool is_last_batch = false;
  bool end_unknown = false;   ///< the loader is not read ahead: whether this batch is the last is found out later
  bool accumulating = false;  ///< the batch at hand does not end its window
  bool in_batch = false;
  long ended = -1;        ///< `progress.total_batches` of the last batch whose end hooks were told, where any listen
  bool no_rows = false;   ///< of a batch of size 0: it holds tensors, and they have no rows
  bool left_out = false;  ///< the batch at hand is none: its loader left it out
  bool has_gradients = false;  ///< a batch of the window at hand ran backward; kept where a precision scales the loss
  bool types_seen = false;     ///< the first training_step was watched for types other than the precision's
  bool sanity_checking = false;
  bool validating = false;
  bool has_validation = false;
  std::size_t loader = 0;
  std::size_t board = 0;  ///< of eval_boards: the loader's, or with several loaders, outside of them, one more
  long first_sample = 0;  ///< of the samples that all ranks predict, the place of this one's first ...
  long sample_step = 1;   ///< ... and how far the others are apart
  std::optional<long> train_batches = std::nullopt;
  std::optional<long> eval_batches = std::nullopt;
};

}  // namespace fulgurite::loop
