#pragma once
// The dynamic twin's callbacks: a base class with a virtual function for each event of training.

#include <exception>

namespace twin {

template <class Library>
class Trainer;

/// Derive and override the events of interest. `Library` says what tensors and batches are.
template <class Library>
class Callback {
 public:
  using Trainer = twin::Trainer<Library>;
  using Tensor = typename Library::Tensor;
  using Batch = typename Library::Batch;

  Callback() = default;
  Callback(Callback const&) = delete;
  Callback& operator=(Callback const&) = delete;
  virtual ~Callback() = default;

  virtual void on_fit_start(Trainer&) {}
  virtual void on_fit_end(Trainer&) {}
  virtual void on_train_start(Trainer&) {}
  virtual void on_train_end(Trainer&) {}
  virtual void on_train_epoch_start(Trainer&) {}
  virtual void on_train_epoch_end(Trainer&) {}
  virtual void on_train_batch_start(Trainer&, Batch const&) {}
  virtual void on_before_zero_grad(Trainer&) {}
  virtual void on_before_backward(Trainer&, Tensor const&) {}
  virtual void on_after_backward(Trainer&) {}
  virtual void on_before_optimizer_step(Trainer&) {}
  virtual void on_train_batch_end(Trainer&, Tensor const&, Batch const&) {}
  virtual void on_validation_start(Trainer&) {}
  virtual void on_validation_batch_start(Trainer&, Batch const&) {}
  virtual void on_validation_batch_end(Trainer&, Batch const&) {}
  virtual void on_validation_end(Trainer&) {}
  virtual void on_exception(Trainer&, std::exception const&) {}
};

}  // namespace twin
