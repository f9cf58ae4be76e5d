#pragma once
// How many threads operators take, set for one thread alone.

#include <mutex>
#include <thread>

#include <ATen/Parallel.h>

namespace fulgurite::libtorch {

/// From here on operators that this thread calls run in it alone. `others`: how many threads those have that begin
/// later. LibTorch sets a thread's number and the number for threads to come in one call, and only another thread can
/// undo the latter.
inline void run_in_this_thread(int others) {
  static std::mutex one_at_a_time;
  std::lock_guard const lock(one_at_a_time);
  at::get_num_threads();  // a thread's first question settles its number by the default; asked later, it would undo the
                          // next line
  at::set_num_threads(1);
  std::thread([others] { at::set_num_threads(others); }).join();
}

}  // namespace fulgurite::libtorch
