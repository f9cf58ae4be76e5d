#pragma once
// What Perplexity sums up of a batch.

#include <ATen/core/Tensor.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/metric/language.hpp>
#include <fulgurite/torch/metric/samples_judged.hpp>

namespace fulgurite::metric {

/// [negative log likelihoods, tokens, labels that are not in the vocabulary].
FULGURITE_BULK at::Tensor tally(Perplexity const& of, at::Tensor const& predictions, at::Tensor const& target) {
  libtorch::require_labels(predictions, target, of.name());
  if (predictions.dim() != target.dim() + 1 ||
      predictions.sizes().slice(0, predictions.sizes().size() - 1) != target.sizes() ||
      !at::isFloatingType(predictions.scalar_type()))
    libtorch::refuse_shapes(predictions, target, of.name(),
                            "give logits [..., vocabulary] of tokens [...]; transpose(1, 2) brings the vocabulary to "
                            "the end");
  auto const vocabulary = predictions.size(-1);
  auto const type = predictions.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  auto const tokens = target.detach().reshape({-1}).to(at::kLong);
  auto const place = libtorch::places(tokens, vocabulary, of.ignore_index, {}, {});
  auto const counts = place.lt(vocabulary);
  auto const logs = at::log_softmax(predictions.detach().reshape({-1, vocabulary}), 1, type);
  auto const log = logs.gather(1, tokens.masked_fill(counts.logical_not(), 0).unsqueeze(1)).squeeze(1);
  return at::stack({at::where(counts, -log, at::zeros_like(log)).sum(at::kDouble), counts.sum(at::kDouble),
                    place.eq(vocabulary + libtorch::no_class).sum(at::kDouble)});
}

}  // namespace fulgurite::metric
