#pragma once
// Masks over a model's parameters, as callbacks see them: each tensor library makes its own.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fulgurite/checkpoint/saved_value.hpp>
#include <fulgurite/core/error.hpp>

namespace fulgurite {

/// One mask as a checkpoint holds it: a bit for each element, eight a byte, and the initial values where they are kept.
struct SavedMask {
  std::string name = {};
  SavedValue bits = {};
  std::optional<SavedValue> initial = std::nullopt;
  void state(auto& archive) { archive("name", name)("bits", bits)("initial", initial); }
};

/// Which parameters are pruned, and what to remember of them.
struct PruningChoice {
  std::vector<std::string> parameters;       ///< full names; empty: by the last part of the name
  std::vector<std::string> parameter_names;  ///< last parts of names, as "weight"
  bool keep_initial = false;

  bool operator()(std::string_view name) const {
    auto const any = [](auto const& list, std::string_view wanted) {
      for (auto const& one : list)
        if (one == wanted) return true;
      return false;
    };
    return parameters.empty() ? any(parameter_names, name.substr(name.rfind('.') + 1)) : any(parameters, name);
  }
};

/// 0 and 1 for each element of the chosen parameters. `Backend::masks(model, choice)` makes them, all 1.
class PruningMasks {
 public:
  virtual ~PruningMasks() = default;
  /// Masks that share of the elements that are not masked yet, those of smallest magnitude: over all parameters together,
  /// or in each. The count is rounded to nearest, halves to even.
  virtual void prune(double amount, bool together) = 0;
  virtual void apply_to_weights() = 0;
  virtual void apply_to_gradients() = 0;
  /// What is not masked gets its initial value back.
  virtual void rewind() = 0;
  virtual std::size_t masked() const = 0;
  virtual std::size_t size() const = 0;
  virtual std::vector<std::string> names() const = 0;
  virtual std::vector<SavedMask> save() const = 0;
  /// Error [fulgurite.callback.pruning_state] where these are not masks of the same parameters.
  virtual void load(std::vector<SavedMask> const& saved) = 0;
};

namespace pruning {

/// Eight elements a byte, the first in the lowest bit.
inline SavedValue pack(std::span<std::uint8_t const> mask) {
  std::vector<std::uint8_t> bytes((mask.size() + 7) / 8);
  for (std::size_t i = 0; i != mask.size(); ++i)
    if (mask[i] != 0) bytes[i / 8] = static_cast<std::uint8_t>(bytes[i / 8] | (1U << (i % 8)));
  return {"U8", {static_cast<std::int64_t>(bytes.size())}, std::string(bytes.begin(), bytes.end())};
}
inline std::vector<std::uint8_t> unpack(SavedValue const& bits, std::size_t size) {
  std::vector<std::uint8_t> mask(size);
  for (std::size_t i = 0; i != size; ++i)
    mask[i] = static_cast<std::uint8_t>((static_cast<std::uint8_t>(bits.bytes[i / 8]) >> (i % 8)) & 1U);
  return mask;
}

[[noreturn]] inline void refuse(std::string_view name) {
  throw Error("fulgurite.callback.pruning_state", "the saved masks do not fit '" + std::string(name) +
                                                      "': resume with the model and the ModelPruning options that were saved");
}
/// The saved one of that name, of a parameter of that size; Error where there is none.
inline SavedMask const& find(std::vector<SavedMask> const& saved, std::string_view name, std::size_t size, bool with_initial) {
  for (auto const& one : saved)
    if (one.name == name && one.bits.bytes.size() == (size + 7) / 8 && (one.initial || !with_initial)) return one;
  refuse(name);
}

}  // namespace pruning
}  // namespace fulgurite
