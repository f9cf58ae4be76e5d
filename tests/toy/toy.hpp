#pragma once
// Strategy, optimizers, loaders and small models on the toy tensor.

#include <cstddef>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/state.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/loop/parts.hpp>
#include <fulgurite/metric/metric.hpp>

#include "backend.hpp"

namespace toy {

/// One imagined device. `Gpu` says what the rules see.
template <fulgurite::Known Gpu>
struct DeviceOn {
  using Backend = toy::Backend;
  using Stateless = fulgurite::ByChoice;
  static constexpr fulgurite::Known on_gpu = Gpu;
  static constexpr bool is_distributed = false;
  static constexpr bool captures = false;

  template <class M, class P>
  void setup(M&, P const&) {}
  template <class M>
  void teardown(M&) {}
  int device() const { return 0; }
  bool is_on_gpu() const { return Gpu == fulgurite::Known::yes; }
  template <class B>
  B&& move(B&& batch) {
    return std::forward<B>(batch);
  }
  template <class B, class Board, class Body>
  auto gradients(fulgurite::StepKey, B& batch, Board&, Body&& body) {
    return body(batch);
  }
  void backward(Tensor& loss, double seed) { loss.backward(seed); }
  template <class O>
  void flush(O& optimizer, double scale) {
    Backend::scale_gradients(optimizer.parameters(), scale);
  }
  int rank() const { return 0; }
  int world() const { return 1; }
};
using Device = DeviceOn<fulgurite::Known::no>;
using Gpu = DeviceOn<fulgurite::Known::yes>;
using SomeDevice = DeviceOn<fulgurite::Known::at_run_time>;

/// A distributed strategy, for what the compiler decides: it is alone. ranks.hpp has one that is not.
struct Several : Device {
  static constexpr bool is_distributed = true;
  int local_rank() const { return 0; }
  bool agree(bool says) const { return says; }
  template <class V>
  V reduce(V value, fulgurite::Reduce) const {
    return value;
  }
  void reduce_in_place(std::span<double>, std::span<fulgurite::Reduce const>) const {}
  void reduce_gradients(std::span<double>, auto& /*optimizers*/) {}
  std::string broadcast(std::string bytes, int = 0) const { return bytes; }
  std::vector<std::string> gather(std::string bytes) const { return {bytes}; }
  void barrier(std::string_view) const {}
};

/// Gradient descent with momentum. Counts its calls. Groups added later begin at some place of `params` and have their
/// own rate.
struct Sgd {
  static constexpr bool needs_closure = false;
  static constexpr bool stable_gradients = true;
  static constexpr std::string_view name() { return "SGD"; }

  std::vector<Tensor> params;
  double rate = 1.0;
  double momentum = 0.0;
  std::vector<double> buffers = {};
  long steps = 0;
  long clears = 0;
  std::vector<std::size_t> begins = {};
  std::vector<double> rates = {};

  void zero_grad() {
    ++clears;
    for (auto& p : params) p.clear_grad();
  }
  void step() {
    ++steps;
    buffers.resize(params.size());
    std::size_t group = 0;
    for (std::size_t i = 0; i != params.size(); ++i) {
      while (group != begins.size() && begins[group] == i) ++group;
      if (!params[i].has_grad()) continue;
      buffers[i] = momentum * buffers[i] + params[i].grad();
      params[i].set(params[i].value() - lr(group) * buffers[i]);
    }
  }
  std::size_t groups() const { return 1 + begins.size(); }
  double lr(std::size_t group) const { return group == 0 ? rate : rates[group - 1]; }
  void set_lr(std::size_t group, double to) { (group == 0 ? rate : rates[group - 1]) = to; }
  void add_group(std::vector<Tensor> const& more, double lr_of_group) {
    begins.push_back(params.size());
    rates.push_back(lr_of_group);
    params.insert(params.end(), more.begin(), more.end());
  }
  std::vector<Tensor> const& parameters() const { return params; }
  void state(auto& archive) { archive("rate", rate)("buffers", buffers)("rates", rates); }
};

/// Evaluates its closure `evaluations` times a step, as LBFGS does.
struct Repeating : Sgd {
  static constexpr bool needs_closure = true;
  int evaluations = 4;
  template <class Closure>
  void step(Closure&& closure) {
    for (int i = 0; i != evaluations; ++i) {
      closure();
      Sgd::step();
    }
    steps -= evaluations - 1;
  }
};

/// 0, 1, 2, ... as batches; sized.
inline std::vector<double> batches(int n, double from = 0) {
  std::vector<double> all;
  for (int i = 0; i != n; ++i) all.push_back(from + i);
  return all;
}

/// The same without a size: only its end tells how long it was.
class Unsized {
 public:
  static constexpr bool batches_stay_valid = true;  ///< numbers by value
  explicit Unsized(int n) : n_(n) {}
  struct Iterator {
    int at;
    double operator*() const { return at; }
    Iterator& operator++() {
      ++at;
      return *this;
    }
    bool operator!=(Iterator const& other) const { return at != other.at; }
    bool operator==(Iterator const& other) const { return at == other.at; }
    void operator++(int) { ++at; }
    using difference_type = std::ptrdiff_t;
    using value_type = double;
  };
  Iterator begin() const { return {0}; }
  Iterator end() const { return {n_}; }

 private:
  int n_;
};

/// A sized loader of what one rank of several was given.
template <class Batch>
struct OwnPart {
  static constexpr bool shards_itself = true;
  static constexpr bool batches_stay_valid = true;
  std::vector<Batch> all = {};
  std::size_t size() const { return all.size(); }
  auto begin() const { return all.begin(); }
  auto end() const { return all.end(); }
};
/// The same without a size.
template <class Batch>
struct OwnStream {
  static constexpr bool shards_itself = true;
  static constexpr bool batches_stay_valid = true;
  std::vector<Batch> all = {};
  auto begin() const { return all.begin(); }
  auto end() const { return all.end(); }
};

/// Batches made one after the other by `make(epoch, batch)` into one place, until it has nothing more: what a generator
/// does that reuses its storage. `made` are those it has begun to hand out.
template <class Make>
class Generator {
 public:
  using Stateless = fulgurite::ByChoice;  // who goes on begins anew
  using Batch = typename std::invoke_result_t<Make&, long, long>::value_type;
  explicit Generator(Make make) : make_(std::move(make)) {}

  class Iterator {
   public:
    using difference_type = std::ptrdiff_t;
    using value_type = Batch;
    explicit Iterator(Generator* from) : from_(from) {}
    Batch& operator*() const { return from_->current_; }
    Iterator& operator++() {
      from_->advance();
      return *this;
    }
    void operator++(int) { from_->advance(); }
    bool operator==(std::default_sentinel_t) const { return from_->ended_; }

   private:
    Generator* from_;
  };
  Iterator begin() {
    ++epoch_;
    batch_ = 0;
    advance();
    return Iterator(this);
  }
  std::default_sentinel_t end() const { return {}; }

  std::vector<Batch> made = {};

 private:
  void advance() {
    auto next = make_(epoch_, batch_++);
    ended_ = !next;
    current_ = next.value_or(Batch{});  // the end destroys the last batch, too
    if (next) made.push_back(*next);
  }

  Make make_;
  Batch current_{};
  long epoch_ = -1, batch_ = 0;
  bool ended_ = true;
};

/// The specification's P: one parameter p = 0, the step returns -p, so every step of SGD(lr 1) adds 1.
struct P {
  static constexpr fulgurite::Metric<"loss"> loss{};
  using Metrics = fulgurite::MetricList<loss>;
  Tensor p = Tensor::parameter(0.0);
  std::vector<double> seen;

  Tensor training_step(double, auto& ctx) {
    seen.push_back(p.value());
    auto value = -p;
    ctx.log(loss, value);
    return value;
  }
  Sgd configure_optimizers() { return Sgd{{p}}; }
};

}  // namespace toy
