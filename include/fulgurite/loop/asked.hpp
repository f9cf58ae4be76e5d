#pragma once
// Part of a run's state: what was asked for.

#include <fulgurite/loop/options.hpp>
#include <fulgurite/loop/run_key.hpp>

namespace fulgurite::loop {

template <class R>
struct Asked {
  TrainerOptions options;          ///< that the run goes by
  TrainerOptions given = options;  ///< as the user gave them: fast_dev_run and others replace some
  typename R::Optimization optimization;
  int window_length = 1;  ///< batches of the windows to come: accumulate_grad_batches, or what ctx.accumulate said
};

}  // namespace fulgurite::loop
