#pragma once
// Metrics on LibTorch's tensors: `Meter accuracy{Accuracy{.num_classes = 10}}`. Includes what tallies those of the
// library.

#include <utility>

#include <fulgurite/metric/meter.hpp>
#include <fulgurite/torch/metric/kept_samples.hpp>
#include <fulgurite/torch/metric/kept_sums.hpp>
#include <fulgurite/torch/metric/kept_window.hpp>
#include <fulgurite/torch/metric/tally_classes.hpp>
#include <fulgurite/torch/metric/tally_language.hpp>
#include <fulgurite/torch/metric/tally_ranking.hpp>
#include <fulgurite/torch/metric/tally_regression.hpp>
#include <fulgurite/torch/metric/tally_values.hpp>

namespace fulgurite {

namespace libtorch {

template <class Keeps>
struct StoreOf;
template <>
struct StoreOf<metric::Sums> {
  using type = KeptSums;
};
template <>
struct StoreOf<metric::Samples> {
  using type = KeptSamples;
};
template <>
struct StoreOf<metric::Window> {
  using type = KeptWindow;
};

}  // namespace libtorch

namespace metric {

/// A metric at work on LibTorch's tensors, on whichever device they are; what it keeps lies there, too:
///   metric::Meter accuracy{metric::Accuracy{.num_classes = 10}};
///   accuracy.update(logits, labels);        // in each step
///   double const value = accuracy.compute();  // at the epoch's end, then accuracy.reset()
template <Definition D>
class Meter : public BasicMeter<D, typename libtorch::StoreOf<KeptBy<D>>::type> {
 public:
  explicit Meter(D definition = {})
      : BasicMeter<D, typename libtorch::StoreOf<KeptBy<D>>::type>(std::move(definition)) {}
};

}  // namespace metric
}  // namespace fulgurite
