#pragma once
// The batch size of a run's loaders, as a search sees it.

#include <optional>
#include <type_traits>
#include <typeindex>
#include <typeinfo>

#include <fulgurite/concept/data.hpp>
#include <fulgurite/loop/data_source.hpp>
#include <fulgurite/loop/rehearsal_plan.hpp>
#include <fulgurite/loop/run.hpp>

namespace fulgurite {

/// The rows of a batch: of the loader, or of the data module that has the loaders, where one can be told.
class BatchSizes {
 public:
  virtual ~BatchSizes() = default;
  /// Nothing where neither the data module nor the loader can be told.
  virtual std::optional<long> now() const = 0;
  virtual void set(long size) = 0;
  /// The loaders are a data module's, or the model's, which may make them again.
  virtual bool makes_loaders() const = 0;
  /// The data module, if it is of this very type; else null.
  virtual void* data_module(std::type_index type) = 0;
  /// Batches that a step is made of.
  virtual long batches_of_step() const = 0;
  /// What follows the search asks for its loaders anew.
  virtual void changed() = 0;
};

namespace loop {

template <class L>
LoaderFacts facts_of(L& loader, std::optional<long> batches) {
  LoaderFacts facts{.batches = batches};
  if constexpr (requires { loader.layout().samples; }) {
    if (loader.layout().samples >= 0) facts.samples = loader.layout().samples;
  } else if constexpr (requires { static_cast<long>(loader.samples()); }) {
    facts.samples = static_cast<long>(loader.samples());
  }
  return facts;
}

/// Loaders that were handed to the trainer.
template <class Source>
inline constexpr bool hands_loaders = false;
template <class Train, class Eval>
inline constexpr bool hands_loaders<GivenLoaders<Train, Eval>> = true;

template <class R, class Source>
class BatchSizesOf final : public BatchSizes {
 public:
  BatchSizesOf(State<R>& run, Source& source) : run_(run), source_(source) {}

  std::optional<long> now() const override {
    std::optional<long> size;
    with_holder([&](auto& holder) { size = batch_size_of(holder); });
    return size;
  }
  void set(long size) override {
    with_holder([&](auto& holder) { set_batch_size_of(holder, size); });
  }
  bool makes_loaders() const override { return !hands_loaders<Source>; }
  void* data_module(std::type_index type) override {
    auto& module = source_.module();
    using Module = std::remove_reference_t<decltype(module)>;
    if constexpr (!std::is_const_v<Module>)
      if (type == typeid(Module)) return &module;
    return nullptr;
  }
  long batches_of_step() const override { return run_.asked.window_length; }
  void changed() override { run_.searching.sizes_changed = true; }

 private:
  /// Calls f with what can be told its batch size.
  template <class F>
  void with_holder(F&& f) const {
    if constexpr (!hands_loaders<Source>) {
      if constexpr (SettableBatchSize<std::remove_reference_t<decltype(source_.module())>>) f(source_.module());
    } else if constexpr (Source::trains) {
      if constexpr (SettableBatchSize<std::remove_reference_t<decltype(source_.given_train)>>) f(source_.given_train);
    } else {
      if constexpr (SettableBatchSize<std::remove_reference_t<decltype(source_.given_eval)>>) f(source_.given_eval);
    }
  }

  State<R>& run_;
  Source& source_;
};

}  // namespace loop
}  // namespace fulgurite
