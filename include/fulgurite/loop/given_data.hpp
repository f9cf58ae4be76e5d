#pragma once
// What a call of fit, validate, test or predict was given: the source of batches that it makes.

#include <type_traits>

#include <fulgurite/concept/data.hpp>
#include <fulgurite/loop/data_source.hpp>

namespace fulgurite::loop {

/// The source that one thing makes, which is a loader (of an evaluation: or a tuple of them) or a data module.
template <class Data, bool Evaluation = false, class D = std::remove_reference_t<Data>>
using SourceOf =
    std::conditional_t<LoaderLike<D> || (Evaluation && is_tuple<std::remove_const_t<D>>),
                       std::conditional_t<Evaluation, GivenLoaders<NoModule, D>, GivenLoaders<D, NoModule>>,
                       ModuleLoaders<D, true>>;
/// The same of two things: loaders, or a data module and NoValidation.
template <class D, class V>
using SourceOfTwo = std::conditional_t<LoaderLike<D>, GivenLoaders<D, V>, ModuleLoaders<D, false>>;

template <class T>
inline constexpr bool is_waiver = std::is_same_v<std::remove_cvref_t<T>, NoValidation>;
/// A data module and a loader, where the data module has loaders of its own.
template <class Data, class Val, class Source>
inline constexpr bool is_mixed = !LoaderLike<std::remove_reference_t<Data>> && !is_waiver<Val> && Source::trains;

/// The source of one thing; `none` stands where a loader brings no other.
template <bool Evaluation = false, class D>
SourceOf<D, Evaluation> source_of(D& data, NoModule& none) {
  if constexpr (!Evaluation && LoaderLike<D>) return {data, none};
  else if constexpr (LoaderLike<D> || (Evaluation && is_tuple<std::remove_const_t<D>>)) return {none, data};
  else return SourceOf<D, Evaluation>(data);
}

}  // namespace fulgurite::loop
