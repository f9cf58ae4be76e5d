#pragma once
// Where a strategy computes. The tags are types, so that rules can see them.

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/constant.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/known.hpp>

namespace fulgurite {

/// The processor. Rules know that no GPU is meant.
struct Cpu {
  static constexpr Known on_gpu = Known::no;
};
/// An NVIDIA GPU; `Cuda{1}` is the second one.
struct Cuda {
  static constexpr Known on_gpu = Known::yes;
  int index = 0;
};
/// A GPU where there is one, else the CPU; decided when the program starts, so rules about GPUs become early
/// exceptions.
struct AutomaticDevice {
  static constexpr Known on_gpu = Known::at_run_time;
};
/// A device that a command line or a file names: "cpu", "cuda", "cuda:1" (the second GPU) or "auto" (a GPU where there
/// is one). One type, so that one trainer in the program serves them all; rules about GPUs become early exceptions.
/// Error where the name is none of these.
struct NamedDevice {
  enum class Kind : std::uint8_t { automatic, cpu, cuda };
  static constexpr Known on_gpu = Known::at_run_time;
  Kind kind = Kind::automatic;
  int index = 0;

  explicit NamedDevice(std::string_view name) {
    if (name == "cpu") kind = Kind::cpu;
    else if (name.starts_with("cuda") && reads_index(name.substr(4))) kind = Kind::cuda;
    else if (name != "auto")
      throw Error("fulgurite.strategy.device",
                  "NamedDevice{\"" + std::string(name) +
                      "\"}: no device is called that: write cpu, cuda, cuda:1 (the second GPU) or auto");
  }

 private:
  static constexpr int most = 127;  // as LibTorch counts

  /// Nothing, or a colon and a number.
  FULGURITE_COLD bool reads_index(std::string_view rest) {
    if (rest.empty()) return true;
    char const* const end = rest.data() + rest.size();
    auto const [stopped, fault] = std::from_chars(rest.data() + 1, end, index);
    return rest.front() == ':' && fault == std::errc{} && stopped == end && index >= 0 && index <= most;
  }
};

/// The type of a device, which says whether it is a GPU.
template <class D>
concept DeviceTag = FULGURITE_SAYS(D, Known, on_gpu);
/// What was given in the place of one; `NoDevice<void>`: nothing.
template <class Given>
struct NoDevice {};

/// The devices as they are written: `SingleDevice{cpu}`, `SingleDevice{cuda}` (the first GPU),
/// `SingleDevice{automatic}`.
inline constexpr Cpu cpu{};
inline constexpr Cuda cuda{};
inline constexpr AutomaticDevice automatic{};

}  // namespace fulgurite
