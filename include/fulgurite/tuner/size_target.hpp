#pragma once
// Where a search for a batch size puts the sizes that it tries: a field, or the loaders themselves.

#include <limits>
#include <optional>
#include <typeindex>
#include <typeinfo>

#include <fulgurite/core/error.hpp>
#include <fulgurite/core/type_name.hpp>
#include <fulgurite/loop/batch_sizes.hpp>
#include <fulgurite/tuner/size_field.hpp>

namespace fulgurite::tune {

/// No size can be put where the batches of this run would have it.
class NoPlaceForSize : public Error {
 public:
  using Error::Error;
};

/// Where a size that is tried, or was found, is put: a field, the loader, or the data module.
template <class Model, class Data>
class SizeTarget {
 public:
  /// Errors: NoPlaceForSize, as [fulgurite.tuner.needs_factory], [fulgurite.tuner.no_data_module] or
  /// [fulgurite.tuner.no_size].
  SizeTarget(BatchSizes& sizes, Model& model, SizeField<Model, Data> const& field)
      : sizes_(sizes), model_(model), field_(field) {
    if (field.is_given() && !sizes.makes_loaders())
      throw NoPlaceForSize(
          "fulgurite.tuner.needs_factory",
          "a loader that is there already is not made again from a field: pass a data module, or the model, "
          "with train_dataloader(), or leave .field out where the loader has set_batch_size(long)");
    if (field.is_in_data()) {
      data_ = static_cast<Data*>(sizes.data_module(typeid(Data)));
      if (data_ == nullptr)
        throw NoPlaceForSize("fulgurite.tuner.no_data_module",
                             "the batch size is a member of " + std::string(type_name<Data>()) +
                                 ", and this run has another data module, or one that is const: pass that type");
    }
    if (!field.is_given() && !sizes.now())
      throw NoPlaceForSize(
          "fulgurite.tuner.no_size",
          "neither the loader nor the data module can be told a batch size: give it `long batch_size() const` "
          "and `void set_batch_size(long)`, or make its loaders from a field, .field = &Data::batch_size");
  }

  long read() const { return field_.is_given() ? used(nullptr) : sizes_.now().value_or(0); }
  void write(long size) const {
    if (field_.is_given()) used(&size);
    else sizes_.set(size);
  }
  long most() const { return field_.most(); }

 private:
  long used(long const* to) const {
    if constexpr (std::is_same_v<Model, Data>) return field_.use(model_, to);
    else return field_.is_in_data() ? field_.use(*data_, to) : field_.use(model_, to);
  }

  BatchSizes& sizes_;
  Model& model_;
  SizeField<Model, Data> const& field_;
  Data* data_ = nullptr;
};

}  // namespace fulgurite::tune
