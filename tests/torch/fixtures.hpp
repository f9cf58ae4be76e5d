#pragma once
// What several units of these tests share: a model, a count of operator calls, bitwise comparison.

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <torch/torch.h>
// After LibTorch, whose logging header defines a CHECK of its own.
#include <catch2/catch_test_macros.hpp>

namespace fixtures {

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FULGURITE_TEST_UNDER_THREAD_SANITIZER
#endif
#if __has_feature(address_sanitizer)
#define FULGURITE_TEST_UNDER_ADDRESS_SANITIZER
#endif
#endif
#ifdef FULGURITE_TEST_UNDER_ADDRESS_SANITIZER
inline constexpr bool under_address_sanitizer = true;
#else
inline constexpr bool under_address_sanitizer = false;
#endif
#ifdef FULGURITE_TEST_UNDER_THREAD_SANITIZER
inline constexpr bool under_thread_sanitizer = true;
#else
inline constexpr bool under_thread_sanitizer = false;
#endif

/// Skips a test whose threads are OpenMP's: the thread sanitizer does not see its barriers, so what they order looks
/// like a race.
inline void skip_under_thread_sanitizer() {
  if (under_thread_sanitizer) SKIP("what OpenMP's barriers order looks like a race: they are not instrumented");
}

/// The exit status of a process of its own that runs the hidden cases with this tag; -1 if it did not end by itself.
/// `first` is called in it before.
inline int status_alone(char const* tag, void (*first)() = [] {}) {
  pid_t const child = ::fork();
  if (child == 0) {
    first();
    ::execl("/proc/self/exe", "torch_tests", tag, static_cast<char*>(nullptr));
    ::_exit(127);
  }
  REQUIRE(child > 0);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// 4 -> 3 -> 1 with a batch norm (float and integer buffers) between.
struct Net : torch::nn::Module {
  torch::nn::Linear in = register_module("in", torch::nn::Linear(4, 3));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(3));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(3, 1));
  torch::Tensor forward(torch::Tensor const& x) { return out->forward(torch::relu(norm->forward(in->forward(x)))); }
};

/// Weights and state of a file, into a model and what `fold(archive)` visits.
template <class Backend, class Model, class Fold>
void load_run(std::filesystem::path const& path, Model& model, Fold&& fold) {
  typename Backend::RunFile const file(path);
  file.load_weights(model);
  file.load(fold);
}

/// Copies of all parameters and buffers, and the way to put them back.
template <class Model>
std::vector<torch::Tensor> copied_weights(Model& model) {
  std::vector<torch::Tensor> all;
  for (auto const& parameter : model.parameters()) all.push_back(parameter.detach().clone());
  for (auto const& buffer : model.buffers()) all.push_back(buffer.clone());
  return all;
}
template <class Model>
void put_weights(Model& model, std::vector<torch::Tensor> const& from) {
  torch::NoGradGuard const no_graph;
  std::size_t at = 0;
  for (auto& parameter : model.parameters()) parameter.copy_(from[at++]);
  for (auto& buffer : model.buffers()) buffer.copy_(from[at++]);
}

/// Equal in type, shape and every bit (nan included).
inline bool same_bits(torch::Tensor const& a, torch::Tensor const& b) {
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes()) return false;
  auto const x = a.detach().cpu().contiguous();
  auto const y = b.detach().cpu().contiguous();
  return std::string_view(static_cast<char const*>(x.data_ptr()), x.nbytes()) ==
         std::string_view(static_cast<char const*>(y.data_ptr()), y.nbytes());
}

/// The operators called on this thread while it lives.
class Operators {
 public:
  Operators() {
    called().clear();
    handle_ = at::addThreadLocalCallback(
        at::RecordFunctionCallback([](at::RecordFunction const& function) -> std::unique_ptr<at::ObserverContext> {
          called().emplace_back(function.name());
          return nullptr;
        }).scopes({at::RecordScope::FUNCTION}));
  }
  ~Operators() { at::removeCallback(handle_); }
  Operators(Operators const&) = delete;
  Operators& operator=(Operators const&) = delete;

  std::size_t all() const { return called().size(); }
  /// Reads of a number by the host.
  int host_reads() const {
    int count = 0;
    for (auto const& name : called()) count += name == "aten::item" || name == "aten::_local_scalar_dense";
    return count;
  }
  std::size_t count(std::string_view name) const {
    return static_cast<std::size_t>(std::count(called().begin(), called().end(), name));
  }
  bool saw(std::string_view name) const { return count(name) != 0; }

 private:
  static std::vector<std::string>& called() {
    thread_local std::vector<std::string> names;
    return names;
  }
  at::CallbackHandle handle_{};
};

/// LibTorch may use so many threads, until it ends.
class Threads {
 public:
  explicit Threads(int n) { at::set_num_threads(n); }
  ~Threads() { at::set_num_threads(before_); }
  Threads(Threads const&) = delete;
  Threads& operator=(Threads const&) = delete;

 private:
  int before_ = at::get_num_threads();
};

}  // namespace fixtures
