#pragma once
// What the loops ask of a tensor library, answered by the toy; counters show what they asked for.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/callback/pruning_masks.hpp>
#include <fulgurite/checkpoint/run_file.hpp>
#include <fulgurite/core/archive.hpp>
#include <fulgurite/core/archive_tree.hpp>
#include <fulgurite/core/switches.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/policy/policies.hpp>

#include "host_store.hpp"
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
  bool deterministic = false;
  std::vector<std::string> saved;
  std::vector<std::pair<std::string, double>> device_stats;  ///< what the device tells of itself
  long waits = 0;                                            ///< for the device to have done its work
  long memory = 1'000'000'000;                               ///< of the device, in rows
  double peak_memory = 0;
  long freed = 0;          ///< times that caches were emptied
  bool disk_full = false;  ///< saving throws
  struct File {
    std::vector<double> weights;
    std::string state;
    std::string hyperparameters = {};
  };
  std::map<std::filesystem::path, File> files;  ///< what was saved, by its path
  std::function<void()> restored = nullptr;     ///< called when random numbers go on from another place
  long fetched = 0;                             ///< tensors whose bytes were taken to the host
  long copied_together = 0;                     ///< times that several tensors were copied at once
};
/// Each rank of several has a world of its own (ranks.hpp); everywhere else there is one.
inline World the_world;
inline thread_local World* rank_world = nullptr;
inline thread_local World& world = rank_world ? *rank_world : the_world;

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

/// The running mean of what it sees; a model's `norm`. Without momentum: the mean of all.
struct Norm {
  double mean = 0;
  std::optional<double> momentum = 0.1;
  long seen = 0;
  bool training = true;  ///< false: frozen, it keeps the mean that it has
  void see(double x) {
    if (!training) return;
    ++seen;
    mean += momentum.value_or(1.0 / static_cast<double>(seen)) * (x - mean);
  }
};

/// A part of a model that can be frozen; `norms` are its batch norms' parameters.
struct Part {
  std::vector<Tensor> params, norms = {};
};

struct OutOfMemory : std::runtime_error {
  OutOfMemory() : std::runtime_error("the imagined device has no more memory") {}
};
/// Takes memory for these rows, of which the imagined device has `world.memory`.
inline void take_memory(long rows) {
  world.peak_memory = std::max(world.peak_memory, static_cast<double>(rows));
  if (rows > world.memory) throw OutOfMemory();
}

struct Backend {
  static constexpr bool adds_defaults = false;  ///< nobody watches tests: a trainer has what they name
  using Value = Tensor;
  template <class D>
  using Meter = fulgurite::metric::BasicMeter<D, HostStore>;
  using Tally = std::vector<double>;
  template <class T>
  static constexpr bool is_value = std::is_base_of_v<Tensor, std::remove_cvref_t<T>>;

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

  template <class Batch>
  static bool holds_tensor(Batch const& batch) {
    return requires { batch.size(); };
  }

  static double seed(Value const&, double factor) { return factor; }
  static Value detached(Value const& v, double factor) { return Tensor(v.value() * factor); }
  static Value scaled(Value const& v, double factor) { return v * Tensor(factor); }
  template <class Parameters>
  static bool no_gradients(Parameters const& parameters) {
    for (auto const& p : parameters)
      if (p.has_grad()) return false;
    return true;
  }
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

  static bool is_number(auto const&) { return true; }
  static void require_graph(auto const&) {}
  template <class Model>
  static std::string buffer_with_nan(Model&) {
    return {};
  }
  static void condense(std::vector<Value>& noted) {
    auto const is_bad = [](Value const& v) { return !std::isfinite(v.value()); };
    noted.front() = *std::find_if(noted.begin(), noted.end() - 1, is_bad);
    noted.erase(noted.begin() + 1, noted.end());
  }
  template <class Parameters>
  static bool gradients_wait(Parameters const&) {
    return world.device_waits;
  }
  template <class Parameters>
  static bool gradients_finite(Parameters const& parameters) {
    for (auto const& p : parameters)
      if (!std::isfinite(p.grad())) return false;
    return true;
  }
  template <class Parameters>
  static void note_gradients(std::vector<Value>& noted, Parameters const& parameters) {
    for (auto const& p : parameters) noted.emplace_back(p.grad());
  }
  template <class Parameters>
  static bool weights_finite(Parameters const& parameters) {
    for (auto const& p : parameters)
      if (!std::isfinite(p.value())) return false;
    return true;
  }
  template <class Parameters>
  static void note_weights(std::vector<Value>& noted, Parameters const& parameters) {
    for (auto const& p : parameters) noted.push_back(p);
  }

  template <class P, class Device>
  static auto autocast(P const&, Device const&) {
    return Restored<int>(world.autocast_depth, world.autocast_depth + (P::autocasts ? 1 : 0));
  }
  static auto no_grad(bool inference) {
    return std::tuple(Restored<bool>(grad_enabled, false), Restored<bool>(world.inference, inference));
  }
  /// The imagined device's generator.
  struct Random {
    std::uint64_t at = world.rng;
    void restore() const {
      world.rng = at;
      if (world.restored) world.restored();
    }
    void state(auto& archive) { archive("at", at); }
  };
  static void seed(std::uint64_t seed) { world.rng = seed; }
  static Random rng_state() { return {}; }
  static auto isolated_rng() { return Restored<std::uint64_t>(world.rng); }
  static auto algorithms(bool deterministic, std::optional<bool>) {
    return Restored<bool>(world.deterministic, deterministic);
  }
  static auto anomaly(bool on) { return Restored<bool>(world.anomaly, on); }
  template <class Model>
  static auto evaluating(Model& model, [[maybe_unused]] bool now = true) {
    if constexpr (requires { model.training; }) return Restored<bool>(model.training, !now && model.training);
    else return 0;
  }

  /// A batch is its time steps.
  template <class B>
  static std::vector<B> time_slices(B const& batch, long length) {
    std::vector<B> slices;
    for (std::size_t t = 0; t < batch.size(); t += static_cast<std::size_t>(length))
      slices.emplace_back(
          batch.begin() + static_cast<std::ptrdiff_t>(t),
          batch.begin() + static_cast<std::ptrdiff_t>(std::min(batch.size(), t + static_cast<std::size_t>(length))));
    return slices;
  }
  static Tensor detached_state(Tensor const& hidden) { return hidden.detach(); }
  template <class T>
  static std::vector<T> detached_state(std::vector<T> all) {
    for (auto& one : all) one = detached_state(one);
    return all;
  }
  /// Another struct is left as it is.
  template <class T>
  static T detached_state(T const& other) {
    return other;
  }
  template <class... Ts>
  static std::tuple<Ts...> detached_state(std::tuple<Ts...> const& all) {
    return std::apply([](auto const&... each) { return std::tuple<Ts...>(detached_state(each)...); }, all);
  }

  template <class B, class P>
  static B& convert_input(B& batch, P const&) {
    return batch;
  }
  template <class O>
  static O&& adopt(O&& optimizer) {
    return std::forward<O>(optimizer);
  }

  template <class Model, class Make>
  static decltype(auto) made_optimizers(Model&, Make const& make) {
    return make();
  }
  template <class Model, class Optimizers>
  static void check_optimizers(Model&, Optimizers&) {}
  static void check_kept(auto&) {}
  static void widen(auto&) {}

  /// Parameters of the other optimizers alone receive no gradient while it lives.
  class Toggled {
   public:
    template <class O, class All>
    Toggled(O& chosen, All& all) {
      std::apply([&](auto&... o) { (remember(o), ...); }, all);
      open.push_back(&before_);
      for (auto& [p, on] : before_) p.set_requires_grad(false);
      for (auto const& p : chosen.parameters())
        for (auto& [q, on] : before_)
          if (p.node() == q.node()) q.set_requires_grad(on);
    }
    Toggled(Toggled const&) = delete;
    ~Toggled() {
      std::erase(open, &before_);
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

   public:
    static inline thread_local std::vector<std::vector<std::pair<Tensor, bool>> const*> open;
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

  template <class Model>
  static std::vector<Value> weights(Model& model) {
    if constexpr (requires { model.parameters(); }) return model.parameters();
    else if constexpr (requires { std::vector<Value>{model.p}; }) return {model.p};
    else return {};
  }
  template <class Model>
  static std::vector<Value> buffers(Model& model) {
    if constexpr (requires { model.buffers(); }) return model.buffers();
    else return {};
  }
  template <class Model>
  static std::vector<std::string> weight_names(Model& model) {
    std::vector<std::string> names;
    if constexpr (requires { model.named_parameters(); })
      for (auto const& [name, p] : model.named_parameters()) names.push_back(name);
    return names;
  }
  static bool averages(Value const&) { return true; }
  static Value gradient(Value const& p) { return p.has_grad() ? Tensor(p.grad()) : Tensor(); }
  static void set_gradient(Value const& p, Value const& gradient) {
    if (gradient.defined()) p.set_grad(gradient.value());
    else p.clear_grad();
  }
  struct Parts {
    Value values, indices = {};
  };
  static Parts parts(Value const& gradient) { return {gradient}; }
  static Value sparse(Parts const& parts, Value const&) { return parts.values; }
  static Value clone(Value const& v) { return Tensor(v.value()); }
  static std::vector<Value> clones(std::span<Value const> values) {
    world.copied_together += values.empty() ? 0 : 1;
    std::vector<Value> all;
    for (auto const& v : values) all.push_back(clone(v));
    return all;
  }
  static void copy_into(Value& to, Value const& from) { to.set(from.value()); }
  static void copy_into(std::span<Value const> to, std::span<Value const> from) {
    world.copied_together += to.empty() ? 0 : 1;
    for (std::size_t i = 0; i != to.size(); ++i) Value(to[i]).set(from[i].value());
  }
  static void lerp_into(Value& average, Value const& v, double t) {
    average.set(average.value() + t * (v.value() - average.value()));
  }
  static void lerp_into(std::span<Value> averages, std::span<Value const> values, double t) {
    for (std::size_t i = 0; i != values.size(); ++i) lerp_into(averages[i], values[i], t);
  }
  static fulgurite::SavedTensor saved(Value const& v) {
    return {"F64",
            {},
            [v](auto const& take) {
              ++world.fetched;
              double const value = v.value();
              take(std::as_bytes(std::span(&value, 1)));
            },
            v,
            &keep};
  }
  static void keep(std::span<fulgurite::SavedTensor* const> handles, fulgurite::CopyTo where) {
    if (where == fulgurite::CopyTo::host) return;
    std::vector<Value> values;
    for (auto const* one : handles) values.push_back(*one->tensor<Value>());
    auto const copies = clones(values);
    for (std::size_t i = 0; i != handles.size(); ++i) *handles[i] = saved(copies[i]);
  }
  static void restore(Value& to, fulgurite::SavedTensor const& from) {
    double value = 0;
    if (auto const* const there = from.tensor<Value>()) value = there->value();
    else from.read([&](auto bytes) { std::memcpy(&value, bytes.data(), sizeof value); });
    to.set(value);
  }
  static void require_fit(Value const&, fulgurite::SavedTensor const&) {}
  static void restore(std::span<Value const> to, std::span<fulgurite::SavedTensor const> from) {
    world.copied_together += to.empty() ? 0 : 1;
    for (std::size_t i = 0; i != to.size(); ++i) {
      Value one = to[i];
      restore(one, from[i]);
    }
  }
  static Value made_from(fulgurite::SavedTensor const& from, Value const&) {
    Value made(0.0);
    restore(made, from);
    return made;
  }
  template <class Model>
  static bool has_batch_norm(Model& model) {
    if constexpr (requires { model.norm.momentum; }) return model.norm.training;
    else return false;
  }
  /// Statistics start anew and are the mean of all that is seen; momenta return when the scope ends.
  template <class Model>
  static auto reset_batch_norm(Model& model) {
    if constexpr (requires { model.norm.momentum; }) {
      if (!model.norm.training) return Restored<std::optional<double>>(model.norm.momentum);
      model.norm.mean = 0;
      model.norm.seen = 0;
      return Restored<std::optional<double>>(model.norm.momentum, std::nullopt);
    } else {
      return 0;
    }
  }

  template <class Model>
  static std::vector<fulgurite::SavedTensor> norm_statistics(Model& model) {
    if constexpr (requires { model.norm.momentum; })
      return {saved(Tensor(model.norm.mean)), saved(Tensor(static_cast<double>(model.norm.seen)))};
    else return {};
  }
  template <class Model>
  static void restore_norm_statistics(Model& model, std::span<fulgurite::SavedTensor const> from) {
    if constexpr (requires { model.norm.momentum; }) {
      Tensor mean(0.0), seen(0.0);
      restore(mean, from[0]);
      restore(seen, from[1]);
      model.norm.mean = mean.value();
      model.norm.seen = static_cast<long>(seen.value());
    }
  }

  template <class Device>
  static auto device_stats(Device const&) {
    return world.device_stats;
  }
  /// What the imagined device throws where a batch is too large for it.
  static bool out_of_memory(std::exception const& error) { return dynamic_cast<OutOfMemory const*>(&error) != nullptr; }
  template <class Device>
  static void free_caches(Device const&) {
    ++world.freed;
  }
  template <class Device>
  static void restart_peak_memory(Device const&) {
    world.peak_memory = 0;
  }
  template <class Device>
  static std::optional<double> peak_memory(Device const&) {
    return world.peak_memory;
  }
  template <class Device>
  static void synchronize(Device const&) {
    ++world.waits;
  }

  /// By the model's own `named_parameters()`, else `p`.
  template <class Model>
    requires(
        requires(Model& model) { model.named_parameters(); } || requires(Model& model) { Tensor(model.p); })
  static std::vector<std::pair<std::string, Tensor>> named_parameters(Model& model) {
    if constexpr (requires { model.named_parameters(); }) return model.named_parameters();
    else return {{"p", model.p}};
  }
  static bool same(Tensor const& a, Tensor const& b) { return a.node() == b.node(); }
  /// Modules are the model, where it knows whether it trains, and its `norm`.
  template <class Model>
    requires requires(Model& model) { named_parameters(model); }
  static fulgurite::Switches switches(Model& model) {
    fulgurite::Switches off;
    for (auto const& [name, p] : named_parameters(model)) {
      bool on = p.requires_grad();
      for (auto scope = Toggled::open.rbegin(); scope != Toggled::open.rend(); ++scope)
        for (auto const& [q, was] : **scope)
          if (same(p, q)) on = was;
      if (!on) off.parameters.push_back(name);
    }
    std::ranges::sort(off.parameters);
    off.modules = eval_modules(model);
    return off;
  }
  template <class Model>
  static std::vector<std::string> eval_modules(Model& model) {
    std::vector<std::string> all;
    if constexpr (requires { model.training; })
      if (!model.training) all.emplace_back();
    if constexpr (requires { model.norm.training; })
      if (!model.norm.training) all.emplace_back("norm");
    return all;
  }
  template <class Model>
  static void set_switches(Model& model, fulgurite::Switches const& off) {
    for (auto const& [name, p] : named_parameters(model))
      p.set_requires_grad(std::ranges::count(off.parameters, name) == 0);
    set_modes(model, off.modules);
  }
  template <class Model>
  static void set_modes(Model& model, std::vector<std::string> const& off) {
    if constexpr (requires { model.training; }) model.training = std::ranges::count(off, "") == 0;
    if constexpr (requires { model.norm.training; }) model.norm.training = std::ranges::count(off, "norm") == 0;
  }

  static void freeze(Part& part, bool train_bn) {
    for (auto& p : part.params) {
      p.set_requires_grad(false);
      p.clear_grad();
    }
    for (auto& p : part.norms) p.set_requires_grad(train_bn);
  }
  static void freeze_batch_norms(Part& part) {
    for (auto& p : part.norms) p.set_requires_grad(false);
  }
  static void make_trainable(Part& part) {
    for (auto& p : part.params) p.set_requires_grad(true);
    for (auto& p : part.norms) p.set_requires_grad(true);
  }
  static std::vector<Tensor> filter_params(Part& part, bool requires_grad) {
    std::vector<Tensor> chosen;
    for (auto const* list : {&part.params, &part.norms})
      for (auto const& p : *list)
        if (p.requires_grad() == requires_grad) chosen.push_back(p);
    return chosen;
  }

  template <class Model, class Optimizer>
  static std::vector<std::pair<std::string, double>> gradient_norms(Model& model, Optimizer& optimizer, double type) {
    std::vector<std::pair<std::string, double>> norms;
    ++world.reads;
    double total = 0;
    for (auto const& [name, p] : named_parameters(model))
      for (auto const& stepped : optimizer.parameters()) {
        if (!same(p, stepped) || !p.has_grad()) continue;
        double const size = std::abs(p.grad());
        norms.emplace_back(name, size);
        total = std::isinf(type) ? std::max(total, size) : total + std::pow(size, type);
      }
    if (!norms.empty()) norms.emplace_back("total", std::isinf(type) ? total : std::pow(total, 1 / type));
    return norms;
  }

  /// Masks of scalars: each parameter is one element.
  class Masks {
   public:
    template <class Model>
    Masks(Model& model, fulgurite::PruningChoice const& choice) : keep_initial_(choice.keep_initial) {
      for (auto const& [name, p] : named_parameters(model))
        if (choice(name)) all_.push_back({name, p, p.value(), 1});
    }
    void prune(double amount, bool together) {
      if (together) prune(amount, std::span(all_));
      else
        for (auto& one : all_) prune(amount, std::span(&one, 1));
    }
    void apply_to_weights() {
      for (auto& one : all_)
        if (one.mask == 0) one.p.set(0);
    }
    void apply_to_gradients() {
      for (auto& one : all_)
        if (one.mask == 0 && one.p.has_grad()) one.p.set_grad(0);
    }
    void rewind() {
      for (auto& one : all_) one.p.set(one.mask * one.initial);
    }
    std::size_t masked() const {
      return static_cast<std::size_t>(
          std::count_if(all_.begin(), all_.end(), [](auto const& one) { return one.mask == 0; }));
    }
    std::size_t size() const { return all_.size(); }
    std::vector<std::string> names() const {
      std::vector<std::string> names;
      for (auto const& one : all_) names.push_back(one.name);
      return names;
    }
    std::vector<fulgurite::SavedMask> save() const {
      std::vector<fulgurite::SavedMask> saved;
      for (auto const& one : all_) {
        saved.push_back({one.name, fulgurite::pruning::pack(std::span(&one.mask, 1))});
        if (keep_initial_) saved.back().initial = Backend::saved(Tensor(one.initial));
      }
      return saved;
    }
    void load(std::vector<fulgurite::SavedMask> const& from) {
      for (auto& one : all_) {
        auto const& saved = fulgurite::pruning::find(from, one.name, 1, keep_initial_);
        one.mask = fulgurite::pruning::unpack(saved.bits, 1).front();
        Tensor initial(0.0);
        if (saved.initial) restore(initial, *saved.initial);
        one.initial = initial.value();
      }
    }

   private:
    struct One {
      std::string name;
      Tensor p;
      double initial;
      std::uint8_t mask;
    };
    static void prune(double amount, std::span<One> among) {
      std::vector<One*> left;
      for (auto& one : among)
        if (one.mask != 0) left.push_back(&one);
      std::ranges::sort(left, {}, [](One* one) { return std::pair(std::abs(one->p.value()), one); });
      left.resize(static_cast<std::size_t>(std::nearbyint(amount * static_cast<double>(left.size()))));
      for (auto* one : left) one->mask = 0;
    }
    std::vector<One> all_;
    bool keep_initial_;
  };
  template <class Model>
  static Masks masks(Model& model, fulgurite::PruningChoice const& choice) {
    return Masks(model, choice);
  }

  template <class Model, class State>
  static void save(std::filesystem::path const& path, Model& model, State&& state,
                   std::span<fulgurite::Hyperparameter const> hyperparameters = {}) {
    if (world.disk_full) throw std::runtime_error("no space left on device");
    fulgurite::ArchiveNode tree;
    fulgurite::StateSaver saver(tree);
    state(saver);
    World::File file;
    for (auto const& w : weights(model)) file.weights.push_back(w.value());
    file.state = fulgurite::to_text(tree);
    if (!hyperparameters.empty()) file.hyperparameters = fulgurite::hyperparameter_text(hyperparameters);
    world.files[path] = std::move(file);
    world.saved.push_back(path.string());
  }

  /// A file that was saved.
  class RunFile {
   public:
    explicit RunFile(std::filesystem::path const& path) {
      auto const found = world.files.find(path);
      if (found == world.files.end()) throw fulgurite::Error("toy.no_file", path.string() + " was not saved");
      weights_ = found->second.weights;
      tree_ = fulgurite::from_text(found->second.state);
    }
    template <class Model>
    void load_weights(Model& model) const {
      auto now = weights(model);
      for (std::size_t i = 0; i != weights_.size(); ++i) now.at(i).set(weights_[i]);
    }
    template <class Fold>
    void load(Fold&& fold) const {
      fulgurite::load_state(tree_, fold);
    }
    template <class Fold>
    void load_whole(Fold&& fold) const {
      fulgurite::load_state(tree_, fold, fulgurite::Unread::refused);
    }

    fulgurite::ArchiveNode const& state() const { return tree_; }

   private:
    std::vector<double> weights_;
    fulgurite::ArchiveNode tree_;
  };
};

}  // namespace toy
