#pragma once
// Switches of LibTorch that the whole process shares. Several trainers at once may want the same position of one; a
// trainer that wants another is refused.

#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include <ATen/Context.h>
#include <torch/csrc/autograd/anomaly_mode.h>

#include <fulgurite/core/error.hpp>

namespace fulgurite::libtorch {

/// Operators take deterministic algorithms, and throw where there is none: what
/// torch.use_deterministic_algorithms(true) does. cuBLAS repeats its bits in workspaces of one kind alone, which the
/// environment names and LibTorch asks for: it is set where nobody has, in time if nothing was multiplied on a GPU yet.
struct DeterministicSwitch {
  static constexpr char const* option = "deterministic";
  using State = std::pair<bool, bool>;
  static State now() {
    return {at::globalContext().deterministicAlgorithms(), at::globalContext().deterministicAlgorithmsWarnOnly()};
  }
  static void put(State to) {
    if (to.first && at::hasCUDA()) ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);
    at::globalContext().setDeterministicAlgorithms(to.first, to.second);
  }
  static State wanted(bool on) { return {on, false}; }
};

/// cuDNN tries several algorithms for each shape, and takes the fastest.
struct BenchmarkSwitch {
  static constexpr char const* option = "benchmark";
  using State = bool;
  static State now() { return at::globalContext().benchmarkCuDNN(); }
  static void put(State to) { at::globalContext().setBenchmarkCuDNN(to); }
  static State wanted(bool on) { return on; }
};

/// An exception in backward names the function that returned a nan.
struct AnomalySwitch {
  static constexpr char const* option = "detect_anomaly";
  using State = std::pair<bool, bool>;
  static State now() {
    return {torch::autograd::AnomalyMode::is_enabled(), torch::autograd::AnomalyMode::should_check_nan()};
  }
  static void put(State to) { torch::autograd::AnomalyMode::set_enabled(to.first, to.second); }
  static State wanted(bool on) { return {on, on}; }
};

/// Holds one switch in the wanted position, or leaves it alone if none is wanted. The first holder sets it, others
/// join, and the last one puts it back. Throws an Error if another holder wants the other position.
template <class Switch>
class SharedSwitch {
 public:
  explicit SharedSwitch(std::optional<bool> wish) : wish_(wish) {
    if (!wish_) return;
    std::lock_guard const lock(holders().mutex);
    if (holders().count != 0 && holders().position != *wish_) refuse();
    if (holders().count++ == 0) {
      holders().position = *wish_;
      holders().before = Switch::now();
      Switch::put(Switch::wanted(*wish_));
    }
  }
  ~SharedSwitch() {
    if (!wish_) return;
    std::lock_guard const lock(holders().mutex);
    if (--holders().count == 0) Switch::put(holders().before);
  }
  SharedSwitch(SharedSwitch const&) = delete;
  SharedSwitch& operator=(SharedSwitch const&) = delete;

 private:
  struct Holders {
    std::mutex mutex;
    int count = 0;
    bool position = false;
    typename Switch::State before{};
  };
  static Holders& holders() {
    static Holders all;
    return all;
  }
  [[noreturn]] void refuse() const {
    auto const said = [](bool on) { return std::string(Switch::option) + (on ? " = true" : " = false"); };
    throw Error("fulgurite.options.shared_switch", "this trainer needs " + said(*wish_) +
                                                       ", another one that is running needs " + said(!*wish_) +
                                                       " (deterministic asks for benchmark = false, where benchmark is "
                                                       "not set): LibTorch has one such switch for the whole process. "
                                                       "Give both the same options, or run one after the other");
  }

  std::optional<bool> wish_;
};

/// Which algorithms operators may take, for the length of a fit or an evaluation. A trainer that asks for nothing
/// changes nothing, and computes with what another one has asked for.
class AlgorithmScope {
 public:
  AlgorithmScope(bool deterministic, std::optional<bool> benchmark)
      : deterministic_(deterministic ? std::optional(true) : std::nullopt),
        benchmark_(benchmark || !deterministic ? benchmark : std::optional(false)) {}

 private:
  SharedSwitch<DeterministicSwitch> deterministic_;
  SharedSwitch<BenchmarkSwitch> benchmark_;
};

/// LibTorch's anomaly detection. While one trainer asks for it, backward looks for a nan in all of them.
class AnomalyScope {
 public:
  explicit AnomalyScope(bool on) : on_(on ? std::optional(true) : std::nullopt) {}

 private:
  SharedSwitch<AnomalySwitch> on_;
};

}  // namespace fulgurite::libtorch
