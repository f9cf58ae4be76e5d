// refused: [fulgurite.metric.update] this metric's update takes something else: most take (predictions, target), both tensors, and metrics of values take (value); one of your own needs a const tally(...) of what update is given
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
  static double tally(double prediction, double target) { return prediction - target; }
  static double compute(std::span<double const> sums) { return sums[0]; }
};

int main() {
  metric::BasicMeter<Distance, Store> meter;
#ifdef LEGAL
  meter.update(1.0, 2.0);
#else
  meter.update(1.0);
#endif
  return meter.compute() < 0 ? 0 : 1;
}
