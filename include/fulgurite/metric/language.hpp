#pragma once
// How well a model of language predicts: what it is called, and its formula over sums.

#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include <fulgurite/core/error.hpp>
#include <fulgurite/metric/average.hpp>

namespace fulgurite::metric {

/// exp of the mean negative log likelihood of the tokens that came: as many tokens the model could not tell apart.
/// Predictions are logits [..., vocabulary], with the vocabulary last; targets are [...] of an integer type.
/// `Meter{Perplexity{.ignore_index = 0}}` leaves the padding out.
struct Perplexity {
  long ignore_index = no_label;  ///< tokens with this label are left out

  static constexpr std::string_view name() { return "Perplexity"; }
  static constexpr std::size_t sums() { return 3; }
  /// The sum of negative log likelihoods, how many they are, and how many labels are not in the vocabulary.
  static double compute(std::span<double const> sums) {
    if (sums[2] != 0)
      throw Error("fulgurite.metric.labels",
                  std::to_string(static_cast<long>(sums[2])) +
                      " tokens of Perplexity are not in the vocabulary, which is the predictions' last extent: say "
                      ".ignore_index for a label that means none");
    if (sums[1] == 0)
      throw Error("fulgurite.metric.empty", "Perplexity has counted no token: update it with one that is not ignored");
    return std::exp(sums[0] / sums[1]);
  }
  bool operator==(Perplexity const&) const = default;
};

}  // namespace fulgurite::metric
