#pragma once
// Where a model or a data module keeps the batch size of which loaders are made.

#include <algorithm>
#include <concepts>
#include <functional>
#include <limits>
#include <type_traits>
#include <utility>

#include <fulgurite/concept/data.hpp>
#include <fulgurite/loop/data_source.hpp>

namespace fulgurite::tune {

/// The types in which a model may keep its batch size.
template <class T>
inline constexpr bool is_count = std::is_integral_v<T> && !std::is_same_v<T, bool> && !std::is_const_v<T>;

/// `&Net::batch_size` or `&Data::batch_size`: a member from which train_dataloader() and its sisters make their
/// loaders. Not given: the loader's own size, or the data module's. The type is an integer.
template <class Model, class Data>
class SizeField {
 public:
  SizeField() = default;
  template <class T, class Owner>
  SizeField(T Owner::* field) {
    constexpr bool in_model = std::derived_from<Model, Owner>, in_data = std::derived_from<Data, Owner>;
    constexpr bool a_count = is_count<T>, of_these = in_model || in_data, factory = !LoaderLike<Data>;
    static_assert(a_count, "[fulgurite.tuner.size_type] a batch size is put into a member that is an integer and no "
                           "constant: write `long batch_size = 2;`");
    static_assert(of_these, "[fulgurite.tuner.size_holder] this member belongs neither to the model nor to the data "
                            "module: name one of theirs, &Data::batch_size");
    static_assert(factory,
                  "[fulgurite.tuner.needs_factory] a loader that is there already is not made again from a "
                  "field: pass a data module, or the model, with train_dataloader(), or leave .field out where "
                  "the loader has set_batch_size(long)");
    if constexpr (a_count && of_these && factory) {
      most_ = static_cast<long>(std::min<std::make_unsigned_t<long>>(
          static_cast<std::make_unsigned_t<T>>(std::numeric_limits<T>::max()),
          static_cast<std::make_unsigned_t<long>>(std::numeric_limits<long>::max())));
      if constexpr (in_model) use_model_ = [field](Model& m, long const* to) { return used(m.*field, to); };
      else use_data_ = [field](Data& d, long const* to) { return used(d.*field, to); };
    }
  }

  bool is_given() const { return use_model_ != nullptr || use_data_ != nullptr; }
  bool is_in_data() const { return use_data_ != nullptr; }
  /// The largest number that it holds.
  long most() const { return most_; }
  /// The size; what `to` points to, if to anything, is put there first.
  long use(Model& model, long const* to) const { return use_model_(model, to); }
  long use(Data& data, long const* to) const
    requires(!std::is_same_v<Model, Data>)
  {
    return use_data_(data, to);
  }

  /// Puts a size into the object that has the field.
  void put(Model& model, [[maybe_unused]] Data& data, long size) const {
    if constexpr (std::is_same_v<Model, Data>) use(model, &size);
    else if (is_in_data()) use(data, &size);
    else use(model, &size);
  }

 private:
  template <class T>
  static long used(T& field, long const* to) {
    if (to != nullptr) field = static_cast<T>(*to);
    return static_cast<long>(field);
  }

  std::function<long(Model&, long const*)> use_model_ = nullptr;
  std::function<long(Data&, long const*)> use_data_ = nullptr;
  long most_ = std::numeric_limits<long>::max();
};

}  // namespace fulgurite::tune
