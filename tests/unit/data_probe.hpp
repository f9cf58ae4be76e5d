#pragma once
// What tests of the general loader share: datasets that count and fail, and all batches of an epoch.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

namespace data_test {

using namespace std::chrono_literals;

inline std::vector<int> numbers(int count) {
  std::vector<int> all;
  for (int i = 0; i < count; ++i) all.push_back(i);
  return all;
}

using Epochs = std::vector<std::vector<int>>;
inline Epochs batches(auto& loader) {
  Epochs all;
  for (auto& batch : loader) all.push_back(batch);
  return all;
}

/// Counts what is read, and fails where it is told to.
struct Probe {
  std::size_t count = 100;
  std::size_t fails_at = 1000;
  std::chrono::microseconds takes = 0us;
  std::shared_ptr<std::atomic<int>> read = std::make_shared<std::atomic<int>>(0);

  std::size_t size() const { return count; }
  int get(std::size_t i) const {
    ++*read;
    if (takes > 0us) std::this_thread::sleep_for(takes);
    if (i == fails_at) throw std::runtime_error("the disk says no");
    return static_cast<int>(i);
  }
};

}  // namespace data_test
