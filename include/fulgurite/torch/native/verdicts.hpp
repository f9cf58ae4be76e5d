#pragma once
// Which products are certified, of the whole process: each shape is tried once.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/torch/native/certify.hpp>
#include <fulgurite/torch/native/open.hpp>

namespace fulgurite::libtorch::native {

class Verdicts {
 public:
  /// Without kernels every product is LibTorch's.
  explicit Verdicts(Kernels const* kernels) : kernels_(kernels), number_(++made()) {}
  Verdicts(Verdicts const&) = delete;
  Verdicts& operator=(Verdicts const&) = delete;

  static Verdicts& of_process() {
    static Verdicts* const all = new Verdicts(process_kernels());  // threads may ask until the very end
    return *all;
  }

  /// The plan of a certified product; nullptr: LibTorch's. The first time that a shape is asked for it is tried, on
  /// these values among others. Plans stay as long as the verdicts.
  Plan const* find(ProductShape const& shape, Operands const& given) {
    auto& seen = last_seen()[ProductHash{}(shape) % 256];
    if (seen.of == number_ && seen.shape == shape) return seen.plan;
    auto const* const plan = kernels_ ? search(shape, given) : nullptr;
    seen = {number_, shape, plan};
    return plan;
  }

  struct Count {
    std::size_t certified = 0, left = 0;
  };
  Count count() const {
    std::lock_guard const lock(mutex_);
    Count count;
    for (auto const& [shape, plan] : all_) ++(plan ? count.certified : count.left);
    return count;
  }

  /// For a person: how many products are whose, in which blocks, and which have no block that fits. Those that differ
  /// only in where their numbers lie are one, as their text is, or two, where one of them alone is certified.
  FULGURITE_BULK std::string account() const {
    std::lock_guard const lock(mutex_);
    if (all_.empty()) return "";
    std::map<std::int64_t, std::set<std::string>> certified;  // by block; 0: in one block
    std::set<std::string> left;
    for (auto const& [shape, plan] : all_)
      (plan ? certified[plan->block() == shape.k ? 0 : plan->block()] : left).insert(shape.text());
    std::size_t count = left.size();
    std::string by;
    for (auto const& [block, texts] : certified) {
      count += texts.size();
      by += " " + std::to_string(texts.size()) + " by " + kernels_->name +
            (block == 0 ? std::string(" in one block,") : " in blocks of " + std::to_string(block) + ",");
    }
    std::string text = std::to_string(count) + " matrix products:" + by;
    text += " " + std::to_string(left.size()) + " by LibTorch";
    for (char const* before = ": no block gives the bits ("; auto const& one : left)
      text += std::exchange(before, "; ") + one;
    return left.empty() ? text : text + ")";
  }

 private:
  struct Seen {
    std::uint64_t of = 0;
    ProductShape shape = {};
    Plan const* plan = nullptr;
  };
  /// So that the threads of a step need no lock. No array: compilers write out how each of its parts begins.
  static std::vector<Seen>& last_seen() {
    thread_local std::vector<Seen> all(256);
    return all;
  }
  static std::atomic<std::uint64_t>& made() {
    static std::atomic<std::uint64_t> count = 0;
    return count;
  }

  FULGURITE_BULK Plan const* search(ProductShape const& shape, Operands const& given) {
    Marked const as_ever(Matmul::libtorch);  // a kernel of LibTorch's that calls another operator must not ask again
    std::lock_guard const lock(mutex_);
    auto const [found, fresh] = all_.try_emplace(shape);
    if (fresh)
      if (auto const plan = Certifier(shape).search(given, *kernels_)) found->second = std::make_unique<Plan>(*plan);
    return found->second.get();
  }

  Kernels const* kernels_;
  std::uint64_t number_;
  mutable std::mutex mutex_;
  std::unordered_map<ProductShape, std::unique_ptr<Plan const>, ProductHash> all_;
};

}  // namespace fulgurite::libtorch::native
