// refused: [fulgurite.metric.reduce] a mean of sums depends on how the data is cut into batches: leave `reduce` out of the metric's definition, count the samples in a further sum, and divide in compute
#include <span>
#include <vector>

#include <fulgurite/metric/meter.hpp>

using namespace fulgurite;

struct Store {
  struct Scope {
    Scope() {}
    static void refuse_recording() {}
  };
  template <class D>
  explicit Store(D const&) {}
  void add(double more) { sum += more; }
  std::vector<double> numbers() const { return {sum}; }
  double sum = 0;
};

struct Distance {
#ifndef LEGAL
  static constexpr Reduce reduce = Reduce::mean;
#endif
  static double tally(double prediction, double target) { return prediction - target; }
  static double compute(std::span<double const> sums) { return sums[0]; }
};

int main() {
  metric::BasicMeter<Distance, Store> meter;
  meter.update(1.0, 2.0);
  return meter.compute() < 0 ? 0 : 1;
}
