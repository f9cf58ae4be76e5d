#pragma once
// What the loops ask of a tensor library, answered by the toy; counters show what they asked for.

#include <cmath>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include <fulgurite/policy/precision.hpp>

#include "tensor.hpp"

namespace toy {

/// Counters and switches of the imagined device.
struct World {
  bool device_waits = false;  ///< reading a value waits, as on a GPU
  long reads = 0;             ///< host synchronisations
  std::uint64_t rng = 1;
  bool inference = false;
  int autocast_depth = 0;
  bool anomaly = false;
  std::vector<std::string> saved;
  bool disk_full = false;  ///< saving throws
};
inline World world;

inline double draw() {
  world.rng = world.rng * 6364136223846793005ULL + 1442695040888963407ULL;
  return static_cast<double>(world.rng >> 11) / 9007199254740992.0;
}

/// Restores a variable when the scope ends.
template <class T>
class Restored {
 public:
  explicit Restored(T& variable, T value) : variable_(&variable), before_(variable) { variable = value; }
  explicit Restored(T& variable) : variable_(&variable), before_(variable) {}
  Restored(Restored&& other) : variable_(std::exchange(other.variable_, nullptr)), before_(other.before_) {}
  ~Restored() {
    if (variable_) *variable_ = before_;
  }

 private:
  T* variable_;
  T before_;
};

struct Backend {
  using Value = Tensor;
  template <class T>
  static constexpr bool is_value = std::is_same_v<std::remove_cvref_t<T>, Tensor>;

  static Value keep(Value const& v) { return v; }
  static bool reading_waits(Value const&) { return world.device_waits; }
  static double read(Value const& v) { return v.value(); }
  static void read_all(std::span<Value const> values, std::span<double> out) {
    ++world.reads;
    for (std::size_t i = 0; i != values.size(); ++i) out[i] = values[i].value();
  }

  template <class Batch>
  static long batch_size(Batch const& batch) {
    if constexpr (requires { batch.batch_size(); }) return batch.batch_size();
    else if constexpr (requires { batch.size(); }) return static_cast<long>(batch.size());
    else return 1;
  }

  static double seed(Value const&, double factor) { return factor; }
  static Value detached(Value const& v, double factor) { return Tensor(v.value() * factor); }
  static Value scaled(Value const& v, double factor) { return v * Tensor(factor); }
  template <class Parameters>
  static void scale_gradients(Parameters const& parameters, double factor) {
    for (auto const& p : parameters)
      if (p.has_grad()) p.set_grad(p.grad() * factor);
  }
  template <class Parameters>
  static Value clip_norm(Parameters const& parameters, double max) {
    double squares = 0;
    for (auto const& p : parameters) squares += p.grad() * p.grad();
    double const norm = std::sqrt(squares);
    scale_gradients(parameters, std::min(1.0, max / (norm + 1e-6)));
    return Tensor(norm);
  }
  template <class Parameters>
  static void clip_value(Parameters const& parameters, double limit) {
    for (auto const& p : parameters)
      if (p.has_grad()) p.set_grad(std::min(limit, std::max(-limit, p.grad())));
  }

  template <class P, class Device>
  static auto autocast(P const&, Device const&) {
    return Restored<int>(world.autocast_depth, world.autocast_depth + (P::autocasts ? 1 : 0));
  }
  static auto no_grad(bool inference) { return std::tuple(Restored<bool>(grad_enabled, false), Restored<bool>(world.inference, inference)); }
  static auto isolated_rng() { return Restored<std::uint64_t>(world.rng); }
  static auto anomaly(bool on) { return Restored<bool>(world.anomaly, on); }
  template <class Model>
  static auto evaluating(Model& model, [[maybe_unused]] bool now = true) {
    if constexpr (requires { model.training; }) return Restored<bool>(model.training, !now && model.training);
    else return 0;
  }

  template <class B, class P>
  static B& convert_input(B& batch, P const&) {
    return batch;
  }
  template <class O>
  static O&& adopt(O&& optimizer) {
    return std::forward<O>(optimizer);
  }

  /// Parameters of the other optimizers alone receive no gradient while it lives.
  class Toggled {
   public:
    template <class O, class All>
    Toggled(O& chosen, All& all) {
      std::apply([&](auto&... o) { (remember(o), ...); }, all);
      for (auto& [p, on] : before_) p.set_requires_grad(false);
      for (auto const& p : chosen.parameters())
        for (auto& [q, on] : before_)
          if (p.node() == q.node()) q.set_requires_grad(on);
    }
    Toggled(Toggled const&) = delete;
    ~Toggled() {
      for (auto& [p, on] : before_) p.set_requires_grad(on);
    }

   private:
    template <class O>
    void remember(O& optimizer) {
      for (auto const& p : optimizer.parameters()) {
        bool known = false;
        for (auto& [q, on] : before_) known = known || q.node() == p.node();
        if (!known) before_.emplace_back(p, p.requires_grad());
      }
    }
    std::vector<std::pair<Tensor, bool>> before_;
  };
  template <class O, class All>
  static Toggled toggled(O& optimizer, All& all) {
    return Toggled(optimizer, all);
  }

  /// The toy's scaler: float16 overflows above 65504.
  template <class P>
  class Scaler {
   public:
    template <class Device>
    Scaler(P const& precision, Device const&) : precision_(precision), scale_(precision.init_scale) {}
    double seed(Value const&, double factor) const { return scale_ * factor; }
    template <class Parameters>
    void unscale(Parameters const& parameters) {
      finite_ = true;
      for (auto const& p : parameters) {
        if (!p.has_grad()) continue;
        finite_ = finite_ && std::isfinite(p.grad()) && std::abs(p.grad()) <= 65504.0;
        p.set_grad(p.grad() / scale_);
      }
    }
    bool finite() const { return finite_; }
    void update() {
      if (!finite_) scale_ *= precision_.backoff_factor, good_ = 0;
      else if (++good_ == precision_.growth_interval) scale_ *= precision_.growth_factor, good_ = 0;
      finite_ = true;
    }
    double scale() const { return scale_; }
    void state(auto& archive) { archive("scale", scale_)("good", good_); }

   private:
    P precision_;
    double scale_;
    int good_ = 0;
    bool finite_ = true;
  };

  template <class Model, class State>
  static void save(std::filesystem::path const& path, Model&, State&&) {
    if (world.disk_full) throw std::runtime_error("no space left on device");
    world.saved.push_back(path.string());
  }
};

}  // namespace toy
