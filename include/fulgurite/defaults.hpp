#pragma once
// fulgurite/trainer.hpp with the defaults of make_trainer:
//
//     auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 10});
//
// has SingleDevice{automatic}, Float32{}, Automatic{}, ProgressBar{}, ModelSummary{}, CSVLogger{}, ModelCheckpoint{}
// and ResultsTable{}. NoDefaults{} leaves out the last five. No header of the library but fulgurite.hpp includes this
// one.

#include <cstdint>

#include <fulgurite/defaults/callbacks.hpp>
#include <fulgurite/policy/policies.hpp>
#include <fulgurite/torch/device/backend.hpp>
#include <fulgurite/torch/device/single_device.hpp>
#include <fulgurite/trainer.hpp>

namespace fulgurite {

/// The strategy of a trainer that is given none: the first GPU if LibTorch sees one, otherwise the CPU.
template <class Model>
struct DefaultStrategy {
  static auto make() { return SingleDevice{automatic}; }
};

/// Seeds LibTorch's generators for the CPU and every GPU: call `seed_everything(42)` before the model is made. Loaders
/// have seeds of their own (`.seed`), which are the same in each run unless changed. Returns the seed.
inline std::uint64_t seed_everything(std::uint64_t seed) {
  LibTorch::seed(seed);
  return seed;
}

}  // namespace fulgurite
