#pragma once
// What a process has sent to the others of its run, for who watches what a step costs.

namespace fulgurite::distributed {

/// What went over the wire, counted.
struct Traffic {
  long all_reduces = 0, all_reduce_bytes = 0;  ///< of gradients
  long in_backward = 0;                        ///< of these, begun before backward had ended
  long broadcasts = 0;                         ///< of weights and buffers
  long of_layers = 0;                          ///< inside of forward and backward
  long all_gathers = 0, all_gather_bytes = 0;  ///< of what ranks keep a part of each
  long exchanges = 0;                          ///< of decisions and numbers
};

}  // namespace fulgurite::distributed
