#pragma once
// What the dynamic twin trains, steps, reads and writes to: four small abstract classes.

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "callback.hpp"

namespace twin {

class Optimizer {
 public:
  Optimizer() = default;
  Optimizer(Optimizer const&) = delete;
  Optimizer& operator=(Optimizer const&) = delete;
  virtual ~Optimizer() = default;
  virtual void zero_grad() = 0;
  virtual void step() = 0;
  virtual void scale_gradients(double factor) = 0;
  virtual void clip_norm(double limit) = 0;
};

/// A model is also a callback: it is notified of every event, after the others.
template <class Library>
class Module : public Callback<Library> {
 public:
  using typename Callback<Library>::Tensor;
  using typename Callback<Library>::Batch;
  using typename Callback<Library>::Trainer;

  virtual Tensor training_step(Trainer&, Batch const&) = 0;
  virtual void validation_step(Trainer&, Batch const&) {}
  virtual std::unique_ptr<Optimizer> configure_optimizer() = 0;
  virtual void train(bool) {}
};

/// A pass over batches. A batch stays valid until the next one is asked for.
template <class Library>
class Loader {
 public:
  using Batch = typename Library::Batch;

  Loader() = default;
  Loader(Loader const&) = delete;
  Loader& operator=(Loader const&) = delete;
  virtual ~Loader() = default;
  virtual void restart() = 0;
  virtual Batch const* next() = 0;  ///< nullptr at the end
  virtual std::size_t size() const = 0;
};

/// A loader over any container of batches.
template <class Library, class Range>
class RangeLoader final : public Loader<Library> {
 public:
  using typename Loader<Library>::Batch;

  explicit RangeLoader(Range& range) : range_(range), at_(range.begin()) {}
  void restart() override {
    at_ = range_.begin();
    first_ = true;
  }
  Batch const* next() override {
    if (!std::exchange(first_, false)) ++at_;
    if (at_ == range_.end()) return nullptr;
    batch_ = *at_;
    return &batch_;
  }
  std::size_t size() const override { return range_.size(); }

 private:
  Range& range_;
  decltype(std::declval<Range&>().begin()) at_;
  Batch batch_{};
  bool first_ = true;
};

/// Where rows of values go.
class Logger {
 public:
  using Row = std::vector<std::pair<std::string, double>>;

  Logger() = default;
  Logger(Logger const&) = delete;
  Logger& operator=(Logger const&) = delete;
  virtual ~Logger() = default;
  virtual void log_metrics(Row const&, long step) = 0;
};

}  // namespace twin
