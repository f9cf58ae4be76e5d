#pragma once
// What a program can be asked to do, by what its model and its data have.

#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/concept/data.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/loop/ckpt_path.hpp>
#include <fulgurite/loop/data_source.hpp>
#include <fulgurite/loop/predict.hpp>
#include <fulgurite/tuner/lr_find.hpp>
#include <fulgurite/tuner/scale_batch_size.hpp>

namespace fulgurite::cli {

/// The model has the step, and the data its loader.
template <class Model, class Data>
struct Can {
  template <class Step, class Loader>
  static constexpr bool both =
      Step::template named<Model> && loop::ModuleLoaders<Data, true>::template evaluates<Loader>;
  static constexpr bool validate = both<hook::validation_step, hook::val_dataloader>;
  static constexpr bool test = both<hook::test_step, hook::test_dataloader>;
  static constexpr bool predict = both<hook::predict_step, hook::predict_dataloader>;
};

/// Where a model keeps its learning rate: `hparams.lr`, `hparams.learning_rate`, `lr` or `learning_rate`.
template <class Model>
auto* rate_of(Model& model) {
  if constexpr (requires { model.hparams.lr; }) return &model.hparams.lr;
  else if constexpr (requires { model.hparams.learning_rate; }) return &model.hparams.learning_rate;
  else if constexpr (requires { model.lr; }) return &model.lr;
  else if constexpr (requires { model.learning_rate; }) return &model.learning_rate;
  else return static_cast<void*>(nullptr);
}
/// Whether `tune` can search for the learning rate of such a model: it keeps one, of a type that can be a rate.
template <class Model>
inline constexpr bool has_rate = tune::is_rate<std::remove_pointer_t<decltype(rate_of(std::declval<Model&>()))>>;

/// The options of `tune`.
struct Tuning {
  bool lr_find = true;
  bool batch_size = false;
  double min_lr = 1e-8;
  double max_lr = 1;
  int num_training = 100;

  void add_to(auto& table, bool sizes) {
    table.add("tune.lr_find", lr_find, "search for a learning rate", false);
    if (sizes) table.add("tune.batch_size", batch_size, "search for the largest batch size first", false);
    table.add("tune.min_lr", min_lr, "the lowest rate that is tried", false);
    table.add("tune.max_lr", max_lr, "the highest", false);
    table.add("tune.num_training", num_training, "steps of the search", false);
  }

  template <class Model>
  tune::RateSearch<Model> rate_search() const {
    return {.min_lr = min_lr, .max_lr = max_lr, .num_training = num_training, .update = [](Model& net) -> auto& {
              return *rate_of(net);
            }};
  }
  /// Before data are read: an Error where a search cannot be, or none is asked for.
  template <class Model>
  void check(bool sizes) const {
    if (lr_find) tune::check(rate_search<Model>());
    else if (!sizes || !batch_size)
      throw Error("fulgurite.cli.tune", std::string("--tune.lr_find = false: nothing is left to search for") +
                                            (sizes ? "; --tune.batch_size true searches for a batch size" : ""));
  }
};

/// Searches, puts what was found into model and data, and returns the text of it.
template <class Trainer, class Model, class Data>
std::string tuned(Trainer& trainer, Model& model, Data& data, Tuning const& how) {
  std::string text;
  if constexpr (SettableBatchSize<Data>) {
    if (how.batch_size) {
      auto const found = tune::scale_batch_size(trainer, model, data);
      text += found.table();
      if constexpr (requires { data.hparams.batch_size; })
        data.hparams.batch_size = static_cast<std::remove_cvref_t<decltype(data.hparams.batch_size)>>(found.size);
    }
  }
  if (how.lr_find) text += tune::lr_find(trainer, model, data, how.rate_search<Model>()).text();
  return text;
}

}  // namespace fulgurite::cli
