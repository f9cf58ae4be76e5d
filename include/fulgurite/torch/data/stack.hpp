#pragma once
// For data::Loader with LibTorch: samples of tensors become batches of tensors, and workers leave the other cores to
// the training loop.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <torch/data/example.h>
#include <torch/types.h>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/data/loader.hpp>
#include <fulgurite/data/shared.hpp>
#include <fulgurite/torch/data/walk.hpp>
#include <fulgurite/torch/device/internals.hpp>

namespace fulgurite::data {

// The batch type of this library's loaders: LibTorch's own pair of tensors, so that a model also works with the loaders
// of torch::data.

/// `batch.data` and `batch.target`, with samples along dimension 0.
using Batch = torch::data::Example<>;

// Batches in page-locked memory, from which copies to a GPU overlap with the step.

/// Throws [fulgurite.data.pin_memory] if there is no GPU to copy to.
void refuse_pinning_without_gpu();

/// Replaces every CPU tensor of a batch by its copy in page-locked memory. For a part with its own `pin_memory()`, that
/// is called; a part whose fields cannot be found stays as it is.
template <class T>
void pin_in_place(T& object) {
  using namespace libtorch;
  if constexpr (std::is_const_v<T> || !holds_tensors<T>) {
  } else if constexpr (TensorLike<T>) {
    if (object.defined() && object.is_cpu() && !object.is_pinned()) object = object.pin_memory();
  } else if constexpr (requires {
                         { object.pin_memory() } -> std::convertible_to<T>;
                       }) {
    object = object.pin_memory();
  } else {
    each_part(object, [&](auto& part) { pin_in_place(part); });
  }
}

/// Wraps a collate function of yours for a data::Loader with `.pin_memory`: `Pinnable{your_function}`. `Stack` does not
/// need it.
template <class Collate>
class Pinnable {
 public:
  explicit Pinnable(Collate collate) : collate_(std::move(collate)) {}
  /// Makes the batch with the wrapped function.
  template <class... Args>
    requires std::invocable<Collate const&, Args...>
  decltype(auto) operator()(Args&&... args) const {
    return std::invoke(collate_, std::forward<Args>(args)...);
  }
  void can_pin() const { refuse_pinning_without_gpu(); }
  void pin(auto& batch) const { pin_in_place(batch); }

 private:
  Collate collate_;
};

namespace collating {

/// References to the fields of a struct: those of a Hana struct, or those that structured bindings find.
template <class T>
auto fields_of(T& object) {
  if constexpr (libtorch::walk::HanaStruct<T>)
    return boost::hana::unpack(boost::hana::accessors<T>(),
                               [&](auto... field) { return std::tie(boost::hana::second(field)(object)...); });
  else return aggregate::with_fields(object, [](auto&... field) { return std::tie(field...); });
}
template <class T>
using Fields = decltype(fields_of(std::declval<T&>()));

/// True for a struct of tensors, or of such structs: its batch is a struct of the same type.
template <class T>
inline constexpr bool is_record = false;
template <class Fields>
inline constexpr bool are_tensors = false;
template <class... Fs>
inline constexpr bool are_tensors<std::tuple<Fs&...>> =
    sizeof...(Fs) != 0 && ((std::same_as<Fs, torch::Tensor> || is_record<Fs>) && ...);
template <class T>
  requires(std::is_class_v<T> && !libtorch::TensorLike<T> && !libtorch::walk::TupleLike<T> &&
           !libtorch::walk::Container<T> && !libtorch::walk::is_example<T> && !is_optional<T>)
inline constexpr bool is_record<T> = are_tensors<Fields<T>>;

/// The element type of a tensor that holds numbers of a batch, as in PyTorch: integers become 64 bits wide.
template <class T>
using Element = std::conditional_t<std::integral<T> && !std::same_as<T, bool>, std::int64_t, T>;

/// True if Stack can make batches of these samples.
template <class T>
inline constexpr bool stacks =
    std::same_as<T, torch::Tensor> || std::same_as<T, Batch> || std::same_as<T, bool> || std::integral<T> ||
    std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, std::string> || is_record<T>;
template <class A, class B>
inline constexpr bool stacks<std::pair<A, B>> = stacks<A> && stacks<B>;
template <class... Ts>
inline constexpr bool stacks<std::tuple<Ts...>> = (stacks<Ts> && ...);

}  // namespace collating

/// Collates like PyTorch: tensors become a tensor by `torch::stack`, numbers a tensor, texts a vector, `{data, target}`
/// a `Batch`, and pairs, tuples and structs of tensors are collated member by member. A struct may have at most 12
/// members, or must be adapted for Hana. Stack is the default of a loader whose samples hold tensors: `Loader
/// loader{dataset, {.batch_size = 32}, Stack{}};`.
class Stack {
  template <class Sample>
  auto column(std::vector<Sample>& samples, auto member) const {
    using Member = std::remove_reference_t<decltype(member(samples.front()))>;
    std::vector<Member> values;
    values.reserve(samples.size());
    for (auto& sample : samples) values.push_back(std::move(member(sample)));
    return (*this)(std::move(values));
  }

 public:
  torch::Tensor operator()(std::vector<torch::Tensor> samples) const { return torch::stack(samples); }

  Batch operator()(std::vector<Batch> samples) const;

  template <class Number>
    requires(std::is_arithmetic_v<Number> && collating::stacks<Number>)
  torch::Tensor operator()(std::vector<Number> samples) const {
    using Element = collating::Element<Number>;
    auto numbers = torch::empty({static_cast<std::int64_t>(samples.size())}, c10::CppTypeToScalarType<Element>::value);
    std::transform(samples.begin(), samples.end(), numbers.template mutable_data_ptr<Element>(),
                   [](auto number) { return static_cast<Element>(number); });
    return numbers;
  }

  std::vector<std::string> operator()(std::vector<std::string> samples) const { return samples; }

  template <class A, class B>
    requires collating::stacks<std::pair<A, B>>
  auto operator()(std::vector<std::pair<A, B>> samples) const {
    return std::pair{column(samples, [](auto& s) -> auto& { return s.first; }),
                     column(samples, [](auto& s) -> auto& { return s.second; })};
  }

  template <class... Ts>
    requires collating::stacks<std::tuple<Ts...>>
  auto operator()(std::vector<std::tuple<Ts...>> samples) const {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return std::tuple{column(samples, [](auto& s) -> auto& { return std::get<I>(s); })...};
    }(std::index_sequence_for<Ts...>());
  }

  template <class Record>
    requires collating::is_record<Record>
  Record operator()(std::vector<Record> samples) const {
    Record batch = samples.front();
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      auto const fields = collating::fields_of(batch);
      ((std::get<I>(fields) = column(samples, [](Record& s) -> auto& { return std::get<I>(collating::fields_of(s)); })),
       ...);
    }(std::make_index_sequence<std::tuple_size_v<collating::Fields<Record>>>());
    return batch;
  }

  /// A Loader with `.pin_memory` calls this.
  void can_pin() const { refuse_pinning_without_gpu(); }
  void pin(auto& batch) const { pin_in_place(batch); }
};

template <class Sample>
  requires(collating::stacks<Sample> && libtorch::holds_tensors<Sample>)
struct CollateOf<Sample> {
  using type = Stack;
};

/// For loaders of tensors, `.on_worker_start = data::one_thread_each()`: a worker's tensor operations run only in its
/// own thread, and those of the training loop keep their threads. Call it in the thread that trains.
std::function<void()> one_thread_each();

/// Shares a dense CPU tensor of any type. The tensors that ranks get are contiguous and must not be written to; loaders
/// do not write to them, since they gather batches into their own memory. Throws [fulgurite.data.shared_tensor] for
/// other tensors.
template <>
struct SharedForm<torch::Tensor> {
  static void put(SharedParts& parts, torch::Tensor const& tensor) {
    if (!tensor.defined() || !tensor.is_cpu() || tensor.layout() != torch::kStrided || tensor.is_quantized() ||
        tensor.requires_grad())
      throw Error("fulgurite.data.shared_tensor",
                  "data::shared keeps dense tensors of the CPU that need no gradient: give it those, and take them to "
                  "a GPU batch by batch");
    auto const dense = tensor.contiguous().resolve_conj().resolve_neg();
    parts.number<std::int64_t>(static_cast<std::int64_t>(dense.scalar_type()));
    parts.number<std::int64_t>(dense.dim());
    for (auto const size : dense.sizes()) parts.number<std::int64_t>(size);
    parts.keep(std::make_shared<torch::Tensor>(dense));
    parts.borrow({static_cast<std::byte const*>(dense.const_data_ptr()), dense.nbytes()});
  }
  static torch::Tensor take(SharedReader& reader) {
    auto const type = static_cast<torch::ScalarType>(reader.number<std::int64_t>());
    std::vector<std::int64_t> sizes(static_cast<std::size_t>(reader.number<std::int64_t>()));
    for (auto& size : sizes) size = reader.number<std::int64_t>();
    auto* const at = const_cast<std::byte*>(reader.next().data());  // tensors have no notion of read-only memory
    return torch::from_blob(at, sizes, [memory = reader.memory()](void*) {}, torch::TensorOptions().dtype(type));
  }
};

/// Shares the tensors of a TensorLoader.
template <>
struct SharedForm<Batch> {
  static void put(SharedParts& parts, Batch const& both) {
    SharedForm<torch::Tensor>::put(parts, both.data);
    SharedForm<torch::Tensor>::put(parts, both.target);
  }
  static Batch take(SharedReader& reader) {
    auto data = SharedForm<torch::Tensor>::take(reader);
    return {std::move(data), SharedForm<torch::Tensor>::take(reader)};
  }
};

}  // namespace fulgurite::data

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/data/stack.ipp>
#endif
