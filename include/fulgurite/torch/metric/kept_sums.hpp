#pragma once
// The sums of a metric in one tensor, on the device of what is counted.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/metric/meter.hpp>
#include <fulgurite/torch/metric/scope.hpp>
#include <fulgurite/torch/weights/saved_tensor.hpp>

namespace fulgurite::libtorch {

/// In double precision, in which counts are exact up to 9e15. Copies are values of their own.
class KeptSums {
 public:
  using Scope = MetricScope;

  template <class D>
  explicit KeptSums(D const& definition) : size_(definition.sums()), how_(metric::combining_of<D>()) {
    if constexpr (metric::JoinsSums<D>) join_ = &joined<D>;
  }

  /// Adds what tally() of a definition has returned: one dimension, as many elements as there are sums.
  FULGURITE_BULK void add(at::Tensor more) {
    if (!more.defined() || more.dim() != 1 || static_cast<std::size_t>(more.numel()) != size_)
      throw Error("fulgurite.metric.tally",
                  "tally() returned a tensor of shape " + (more.defined() ? shape_text(more.sizes()) : "none") +
                      ", and sums() says " + std::to_string(size_) + ": return at::stack of that many numbers");
    more = more.detach().to(at::kDouble);
    if (!sums_.defined()) {
      sums_ = more.clone();
      return;
    }
    meet(sums_, more);
    if (join_) {
      sums_ = join_(sums_, more);
      return;
    }
    if (sums_.use_count() > 1) sums_ = sums_.clone();  // a copy of this, or a file that is being written, has it, too
    if (how_.reduce == Reduce::max) at::maximum_out(sums_, sums_, more);
    else if (how_.reduce == Reduce::min) at::minimum_out(sums_, sums_, more);
    else sums_.add_(more);
  }

  std::vector<double> numbers() const {
    return sums_.defined() ? host_numbers(sums_) : std::vector<double>(size_, metric::neutral(how_.reduce));
  }
  template <class Ranks>
  std::vector<double> numbers_of_all(Ranks& ranks, long& updates) const {
    auto sums = numbers();
    metric::combine_over_ranks(ranks, sums, how_, updates);
    return sums;
  }
  void reset() { sums_.reset(); }
  void merge(KeptSums const& other) {
    if (other.sums_.defined()) add(other.sums_);
  }
  void state(auto& archive) {
    if constexpr (std::remove_cvref_t<decltype(archive)>::loading) sums_.reset();
    archive.tensor("sums", sums_);
    if constexpr (std::remove_cvref_t<decltype(archive)>::loading)
      if (sums_.defined() && (sums_.dim() != 1 || static_cast<std::size_t>(sums_.numel()) != size_))
        throw Error("fulgurite.checkpoint.state_entry",
                    "the saved sums of a metric have shape " + shape_text(sums_.sizes()) + ", here they are " +
                        std::to_string(size_) + ": load them into a metric of the options that it was saved with");
  }

 private:
  using Join = at::Tensor (*)(at::Tensor const&, at::Tensor const&);
  template <class D>
  static at::Tensor joined(at::Tensor const& all, at::Tensor const& more) {
    auto const parts = [](at::Tensor const& sums) {
      auto const rows = sums.reshape({static_cast<std::int64_t>(D::parts), -1});
      std::array<at::Tensor, D::parts> each;
      for (std::size_t p = 0; p != D::parts; ++p) each[p] = rows[static_cast<std::int64_t>(p)];
      return each;
    };
    return at::cat(at::TensorList(D::joined(parts(all), parts(more))));
  }

  std::size_t size_;
  metric::Combining how_;
  Join join_ = nullptr;
  at::Tensor sums_ = {};
};

}  // namespace fulgurite::libtorch
