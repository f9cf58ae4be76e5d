#pragma once
// Names of the workloads, and how long each is measured. Without LibTorch: what they are stands in nets.hpp.

#include <array>
#include <string_view>

#include <fulgurite/policy/policies.hpp>

#include "protocol.hpp"

namespace bench {

struct Workload {
  std::string_view name;
  long steps;               ///< of a round
  long warm_up;             ///< of a round, not measured: enough for the checks that follow a capture
  bool multiplies = false;  ///< most of a step are matrix products, so their speed is reported
};

/// 1500 steps a round, fewer where one takes a millisecond or more, so that all of it takes less than fifteen minutes.
inline constexpr std::array workloads{
    Workload{"null-logged", 1'000'000, 1000},
    Workload{"tiny-mlp-sgd", 1500, 200, true},
    Workload{"tiny-mlp-adam", 1500, 200, true},
    Workload{"regression-sgd", 1500, 200},
    Workload{"mlp-dropout-adam", 1500, 200, true},
    Workload{"mnist-mlp-16-adam", 1500, 100, true},
    Workload{"mnist-mlp-sgd", 1500, 100, true},
    Workload{"mnist-mlp-adam", 1500, 100, true},
    Workload{"mnist-mlp-loader-adam", 600, 100, true},
    Workload{"mnist-cnn-adam", 150, 30},
    Workload{"lstm-adam", 400, 60},
    Workload{"lstm-tbptt-adam", 400, 60},
    Workload{"gan-adam", 150, 30},
    Workload{"char-gpt-adam", 12, 6, true},
    Workload{"resnet18-sgd", 6, 6},
};

Loops raw_loops(fulgurite::Matmul products);       ///< raw.cpp
Loops hand_tuned_loops();                          ///< hand_tuned.cpp
Loops trainer_loops(fulgurite::Matmul products);   ///< trainer.cpp
Loops fast_loops(fulgurite::Matmul products);      ///< fast.cpp
Loops captured_loops(fulgurite::Matmul products);  ///< captured.cpp
Loops twin_loops();                                ///< twin.cpp
Loops silent_loops();                              ///< null.cpp: the null model, which logs nothing
Loops logged_loops();                              ///< null.cpp: it logs one scalar a step
Loops twin_silent_loops(), twin_logged_loops();

/// What a checkpoint costs the step's thread, in milliseconds and MB of 10^6 bytes.
struct CheckpointCost {
  double megabytes = 0;                        ///< of the file: weights and the moments of Adam
  std::vector<double> stalls = {};             ///< of the step's thread, one a checkpoint
  std::vector<double> background_stalls = {};  ///< the same where another thread writes the file
  std::vector<double> copies = {};             ///< the same bytes copied once in memory: what P14 wants
  std::vector<double> writes = {};             ///< the same bytes by one plain write and fsync: what the disk wants
};
CheckpointCost measure_checkpoint(int checkpoints);  ///< checkpoint.cpp

/// The kinds of processors for which bars of matrix products are set; "AMD with AVX-512 in halves" is Zen 4.
std::string kind_of_processor();  ///< processor.cpp
// products.cpp
bool has_products();            ///< whether the program has other kernels for matrix products than LibTorch's
std::string products_so_far();  ///< which of the process were whose
/// Additions and multiplications in the matrix products of one raw step, 2 M N K for each; attention in one operator is
/// not among them.
double product_operations(std::string const& workload);

/// Lets LibTorch use so many threads; returns its version.
char const* prepare_libtorch(int threads);  ///< nets.cpp

}  // namespace bench
