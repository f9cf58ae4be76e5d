#pragma once
// Prepared batches over and over: what trainers are given as their loader.

#include <cstddef>
#include <vector>

#include <fulgurite/core/state.hpp>

#include "nets.hpp"

namespace bench {

class Cycle {
 public:
  using value_type = Batch;
  using Stateless = fulgurite::ByChoice;  // read from its beginning
  Cycle(std::vector<Batch>& batches, long n) : batches_(batches), n_(n) {}
  struct Iterator {
    using difference_type = std::ptrdiff_t;
    using value_type = Batch;
    std::vector<Batch>* batches;
    long at;
    Batch& operator*() const { return (*batches)[static_cast<std::size_t>(at) % batches->size()]; }
    Iterator& operator++() {
      ++at;
      return *this;
    }
    void operator++(int) { ++at; }
    bool operator==(Iterator const& other) const { return at == other.at; }
  };
  Iterator begin() { return {&batches_, 0}; }
  Iterator end() { return {&batches_, n_}; }
  std::size_t size() const { return static_cast<std::size_t>(n_); }

 private:
  std::vector<Batch>& batches_;
  long n_;
};

}  // namespace bench
