#pragma once
// A tensor library that computes nothing: what remains of a step is the trainer. For counting instructions.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/state.hpp>
#include <fulgurite/core/types.hpp>

#include "toy.hpp"

namespace null {

struct Value {
  double number = 0;
};

/// The work of a step. It is called, once a step, by whatever is measured; nothing is known of what it does.
[[gnu::noinline]] inline Value work(long batch) {
  asm volatile("");
  return {static_cast<double>(batch)};
}

struct Backend : toy::Backend {
  using Value = null::Value;
  template <class T>
  static constexpr bool is_value = std::is_same_v<std::remove_cvref_t<T>, Value>;
  static Value keep(Value const& v) { return v; }
  static bool reading_waits(Value const&) { return false; }
  static double read(Value const& v) { return v.number; }
  static void read_all(std::span<Value const>, std::span<double>) {}
  static double seed(Value const&, double factor) { return factor; }
  static Value detached(Value const& v, double factor) { return {v.number * factor}; }
  static Value scaled(Value const& v, double factor) { return {v.number * factor}; }
  template <class Batch>
  static long batch_size(Batch const&) {
    return 1;
  }
  template <class Precision, class Device>
  static int autocast(Precision const&, Device const&) {
    return 0;
  }
  static void condense(std::vector<Value>&) {}
  template <class Parameters>
  static bool gradients_wait(Parameters const&) {
    return false;
  }
  template <class Parameters>
  static bool gradients_finite(Parameters const&) {
    return true;
  }
  template <class Parameters>
  static void note_gradients(std::vector<Value>&, Parameters const&) {}
  template <class Parameters>
  static void note_weights(std::vector<Value>&, Parameters const&) {}
  template <class Parameters>
  static void scale_gradients(Parameters const&, double) {}
  template <class Parameters>
  static Value clip_norm(Parameters const&, double) {
    return {};
  }
  template <class Parameters>
  static void clip_value(Parameters const&, double) {}
  template <class Model, class State>
  static void save(std::filesystem::path const&, Model&, State&&, std::span<fulgurite::Hyperparameter const>) {}
};

struct Device : toy::Device {
  using Backend = null::Backend;
  void backward(Value&, double) {}
  template <class O>
  void flush(O&, double) {}
};

struct Optimizer {
  static constexpr bool needs_closure = false, stable_gradients = true;
  void zero_grad() {}
  void step() {}
  std::size_t groups() const { return 1; }
  double lr(std::size_t) const { return 1; }
  void set_lr(std::size_t, double) {}
  std::vector<Value> const& parameters() const { return parameters_; }

 private:
  std::vector<Value> parameters_;
};

/// Batches 0, 1, ..., n - 1.
class Count {
 public:
  using value_type = long;
  explicit Count(long n) : n_(n) {}
  struct Iterator {
    using difference_type = std::ptrdiff_t;
    using value_type = long;
    long at;
    long operator*() const { return at; }
    Iterator& operator++() {
      ++at;
      return *this;
    }
    void operator++(int) { ++at; }
    bool operator==(Iterator const& other) const { return at == other.at; }
  };
  Iterator begin() const { return {0}; }
  Iterator end() const { return {n_}; }
  std::size_t size() const { return static_cast<std::size_t>(n_); }

 private:
  long n_;
};

}  // namespace null
