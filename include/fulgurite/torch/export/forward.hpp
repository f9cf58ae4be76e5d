#pragma once
// The part of an export that does not need LibTorch: which models can be exported, and what their results may be.

#include <concepts>
#include <cstddef>
#include <tuple>
#include <utility>
#include <vector>

namespace fulgurite::exporting {

/// True for a tuple, a pair or an array.
template <class T>
concept Several = requires { std::tuple_size<T>::value; };

// The function that is exported: the model's `forward`, which a module holder or a pointer has behind `->`.

/// The model itself has a forward for these inputs.
template <class Net, class... Inputs>
concept HasForward = requires(Net& net, Inputs const&... inputs) { net.forward(inputs...); };
/// A holder of a model with a forward for these inputs, or a pointer to one.
template <class Net, class... Inputs>
concept HoldsForward = requires(Net& net, Inputs const&... inputs) { net->forward(inputs...); };

/// Calls the model's forward.
template <class Net, class... Inputs>
  requires HasForward<Net, Inputs...> || HoldsForward<Net, Inputs...>
auto forward(Net& net, Inputs const&... inputs) {
  if constexpr (HasForward<Net, Inputs...>) return net.forward(inputs...);
  else return net->forward(inputs...);
}

/// How many tensors an example has.
template <class Example>
inline constexpr std::size_t inputs = 1;
template <Several Example>
inline constexpr std::size_t inputs<Example> = std::tuple_size_v<Example>;

/// Calls the model's forward with the first tensors of `list`, as many as an example has.
template <class Example, class Net, class List>
auto forward_of(Net& net, List const& list)
  requires requires {
    []<std::size_t... Is>(Net& n, List const& l, std::index_sequence<Is...>)
      requires requires { exporting::forward(n, l[Is]...); }
    {}(net, list, std::make_index_sequence<inputs<Example>>{});
  }
{
  return [&]<std::size_t... Is>(std::index_sequence<Is...>) {
    return exporting::forward(net, list[Is]...);
  }(std::make_index_sequence<inputs<Example>>{});
}

// What a file can give back: a tensor, or tuples and vectors of tensors, in each other if need be.

/// True for a type of results that other programs know.
template <class Result, class Tensor>
inline constexpr bool is_result = std::convertible_to<Result, Tensor>;
template <class Value, class Tensor>
inline constexpr bool is_result<std::vector<Value>, Tensor> = std::convertible_to<Value, Tensor>;
template <Several Result, class Tensor>
inline constexpr bool is_result<Result, Tensor> = []<std::size_t... Is>(std::index_sequence<Is...>) {
  return (is_result<std::tuple_element_t<Is, Result>, Tensor> && ...);
}(std::make_index_sequence<std::tuple_size_v<Result>>{});

/// True for a tensor, or a tuple of tensors.
template <class Example, class Tensor>
inline constexpr bool is_example = std::convertible_to<Example const&, Tensor>;
template <Several Example, class Tensor>
inline constexpr bool is_example<Example, Tensor> = []<std::size_t... Is>(std::index_sequence<Is...>) {
  return std::tuple_size_v<Example> != 0 && (std::convertible_to<std::tuple_element_t<Is, Example>, Tensor> && ...);
}(std::make_index_sequence<std::tuple_size_v<Example>>{});

/// The tensors of an example, as a list.
template <class Tensor, class Example>
std::vector<Tensor> list_of(Example const& example) {
  if constexpr (Several<Example>)
    return std::apply([](auto const&... each) { return std::vector<Tensor>{Tensor(each)...}; }, example);
  else return {Tensor(example)};
}

/// True if a model can be exported; otherwise one sentence says why it cannot. The result is found only for a model
/// that has a forward, so that one mistake makes one error.
template <class Net, class Example, class Tensor>
consteval bool exportable() {
  constexpr bool example = is_example<Example, Tensor>;
  static_assert(example,
                "[fulgurite.export.example] an example is one tensor, or a std::tuple with one tensor for each "
                "argument of forward: std::tuple{images, lengths}");
  if constexpr (example) {
    using List = std::vector<Tensor>;
    constexpr bool called = requires(Net& net, List const& list) { exporting::forward_of<Example>(net, list); };
    static_assert(called, "[fulgurite.export.forward] what is exported is the model's forward, and it has none that "
                          "takes this example: write a public forward(Tensor const& x), which training_step may "
                          "call, and give one tensor for each of its arguments");
    if constexpr (called) {
      using Result = decltype(exporting::forward_of<Example>(std::declval<Net&>(), std::declval<List const&>()));
      constexpr bool result = is_result<Result, Tensor>;
      static_assert(result, "[fulgurite.export.result] forward of an exported model returns a tensor, or a std::tuple "
                            "or std::vector of tensors: other programs do not know its own types");
      return result;
    }
  }
  return false;
}

}  // namespace fulgurite::exporting
