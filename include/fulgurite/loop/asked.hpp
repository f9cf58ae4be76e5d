#pragma once
// Part of a run's state: what was asked for.

#include <cstddef>

#include <fulgurite/loop/options.hpp>
#include <fulgurite/loop/run_key.hpp>

namespace fulgurite::loop {

/// How many callbacks make_trainer has added.
struct AddedCallbacks {
  std::size_t count = 0;
};

template <class R>
struct Asked {
  TrainerOptions options;          ///< that the run goes by
  TrainerOptions given = options;  ///< as the user gave them: fast_dev_run and others replace some
  typename R::Optimization optimization;
  std::size_t added = 0;  ///< callbacks of the defaults, the last ones of the trainer: barebones finds them idle
  bool logs = false;      ///< there is a logger among the callbacks
  int window_length = 1;  ///< batches of the windows to come: accumulate_grad_batches, or what ctx.accumulate said
};

}  // namespace fulgurite::loop
