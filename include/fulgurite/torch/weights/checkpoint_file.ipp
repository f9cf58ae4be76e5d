#pragma once
// The bodies of torch/weights/checkpoint_file.hpp.

#include <fulgurite/torch/weights/checkpoint_file.hpp>

namespace fulgurite::libtorch {

FULGURITE_BODY std::string in_brackets(std::vector<std::string> const& names) {
  std::string all;
  for (auto const& name : names) all += (all.empty() ? "('" : ", '") + name + "'";
  return all + ")";
}

FULGURITE_BODY void note_data_state(SafetensorsFile const& file, ArchiveNode const& state, WeightOptions const& options,
                                    WeightReport& report) {
  report.data_state = entries_of(state, data_module_key);
  if (report.data_state.empty() || !options.strict || options.without_data_state || !options.from.empty()) return;
  throw Error("fulgurite.checkpoint.data_state",
              file.path().string() + " also keeps what the data module of its run has learned " +
                  in_brackets(report.data_state) +
                  ", and without it the model may see other inputs than it was trained on: load both, "
                  "load_weights(model, data, file), or say {.without_data_state = true}");
}

FULGURITE_BODY bool takes_model_state(SafetensorsFile const& file, ArchiveNode const& state, bool keeps,
                                      std::vector<std::string> const& own, WeightOptions const& options,
                                      WeightReport& report) {
  auto const kept = entries_of(state, model_key);
  if (keeps && !kept.empty() && options.from.empty()) return true;
  report.model_state = kept.empty() ? own : kept;
  bool const may_differ = !options.strict || !options.from.empty() || state.holds_nothing();
  if (report.model_state.empty() || may_differ) return false;
  throw Error("fulgurite.checkpoint.model_state",
              file.path().string() +
                  (kept.empty() ? " keeps nothing beside the weights of its model, and this one has a state(archive) " +
                                      in_brackets(own)
                                : " also keeps what its model has saved by state(archive) " + in_brackets(kept) +
                                      ", and this model has no state(archive)") +
                  ": load it into a model like the saved one, or what fits with {.strict = false}");
}

}  // namespace fulgurite::libtorch
