#pragma once
// What tells validation from test: their hooks, their step, their phase.

#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/loop/phase.hpp>

namespace fulgurite::loop {

/// The hooks and the step of one kind of evaluation.
struct Validation {
  using Phase = phase::Validate;
  using EndPhase = phase::ValidateEnd;
  using Step = hook::validation_step;
  using Loader = hook::val_dataloader;
  using start = hook::on_validation_start;
  using end = hook::on_validation_end;
  using epoch_start = hook::on_validation_epoch_start;
  using epoch_end = hook::on_validation_epoch_end;
  using batch_start = hook::on_validation_batch_start;
  using batch_end = hook::on_validation_batch_end;
  using model_eval = hook::on_validation_model_eval;
  using model_train = hook::on_validation_model_train;
  static constexpr char const* limit = "limit_val_batches";
};
struct Testing {
  using Phase = phase::Test;
  using EndPhase = phase::TestEnd;
  using Step = hook::test_step;
  using Loader = hook::test_dataloader;
  using start = hook::on_test_start;
  using end = hook::on_test_end;
  using epoch_start = hook::on_test_epoch_start;
  using epoch_end = hook::on_test_epoch_end;
  using batch_start = hook::on_test_batch_start;
  using batch_end = hook::on_test_batch_end;
  using model_eval = hook::on_test_model_eval;
  using model_train = hook::on_test_model_train;
  static constexpr char const* limit = "limit_test_batches";
};

}  // namespace fulgurite::loop
