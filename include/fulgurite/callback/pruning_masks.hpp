#pragma once
// Masks over a model's parameters, for callbacks: each tensor library has a type of its own.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/core/archive_tree.hpp>
#include <fulgurite/core/body.hpp>

namespace fulgurite {

/// One mask in a checkpoint: one bit for each element, eight in a byte, and the initial values if they are kept.
struct SavedMask {
  std::string name = {};
  SavedTensor bits = {};
  std::optional<SavedTensor> initial = std::nullopt;
  void state(auto& archive);
};

/// Which parameters are pruned, and whether their initial values are kept.
struct PruningChoice {
  std::vector<std::string> parameters;       ///< full names; empty: selected by parameter_names
  std::vector<std::string> parameter_names;  ///< the last parts of names, such as "weight"
  bool keep_initial = false;

  bool operator()(std::string_view name) const;
};

/// A mask of 0 and 1 for each element of the chosen parameters. `Backend::masks(model, choice)` makes the masks, all 1;
/// each tensor library has a type of its own.
///
/// `prune(share, together)` masks that share of the elements that are not masked yet, those of smallest magnitude: over
/// all parameters together, or in each. The count is rounded to nearest, halves to even. `rewind()` restores the
/// initial values of elements that are not masked. `load(saved)` throws [fulgurite.callback.pruning_state] if `saved`
/// does not hold masks of the same parameters.
template <class M>
concept PruningMasks = requires(M& masks, M const& known, std::vector<SavedMask> const& saved) {
  masks.prune(0.5, true);
  masks.apply_to_weights();
  masks.apply_to_gradients();
  masks.rewind();
  masks.load(saved);
  { known.masked() } -> std::same_as<std::size_t>;
  { known.size() } -> std::same_as<std::size_t>;
  { known.names() } -> std::same_as<std::vector<std::string>>;
  { known.save() } -> std::same_as<std::vector<SavedMask>>;
};

/// Masks in a callback, which is made before the tensor library is known, and is saved without it. The callback's hooks
/// know the type, and access the masks without a virtual call.
class HeldMasks {
 public:
  template <PruningMasks M>
  M& hold(M masks) {
    auto made = std::make_unique<Of<M>>(std::move(masks));
    auto& here = made->masks;
    held_ = std::move(made);
    return here;
  }
  /// `M` must be the type that is held.
  template <PruningMasks M>
  M& as() const {
    return static_cast<Of<M>&>(*held_).masks;
  }
  explicit operator bool() const { return held_ != nullptr; }
  void reset() { held_.reset(); }

  std::vector<SavedMask> save() const { return held_->save(); }
  /// Loads the masks and applies them to the weights; see PruningMasks. Returns the number of masked elements.
  std::size_t load(std::vector<SavedMask> const& saved) { return held_->load(saved); }

 private:
  struct Held {
    virtual ~Held() = default;
    virtual std::vector<SavedMask> save() const = 0;
    virtual std::size_t load(std::vector<SavedMask> const& saved) = 0;
  };
  template <class M>
  struct Of final : Held {
    explicit Of(M made) : masks(std::move(made)) {}
    std::vector<SavedMask> save() const override { return masks.save(); }
    std::size_t load(std::vector<SavedMask> const& saved) override {
      masks.load(saved);
      masks.apply_to_weights();
      return masks.masked();
    }
    M masks;
  };
  std::unique_ptr<Held> held_ = nullptr;
};

namespace pruning {

/// Eight elements in a byte, the first in the lowest bit.
SavedTensor pack(std::span<std::uint8_t const> mask);
std::vector<std::uint8_t> unpack(SavedTensor const& bits, std::size_t size);

[[noreturn]] void refuse(std::string_view name);
/// The saved mask of a parameter with that name and size; throws if there is none.
SavedMask const& find(std::vector<SavedMask> const& saved, std::string_view name, std::size_t size, bool with_initial);

}  // namespace pruning
}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/callback/pruning_masks.ipp>
#endif
