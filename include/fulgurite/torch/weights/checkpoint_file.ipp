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

FULGURITE_BODY std::vector<std::string> own_entries(OwnState const& own) {
  ArchiveNode state;
  StateSaver saver(state, {}, StateSaver::Tensors::borrowed);
  if (own.save) own.save(saver);
  return entries_of(state, model_key);
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

FULGURITE_BODY WeightReport load_model(torch::nn::Module const* model, OwnState const& own, SafetensorsFile const& file,
                                       ArchiveNode const& state, WeightOptions const& options) {
  WeightReport kept;
  auto const load = [&] {
    auto report = load_weights(model, file, options);
    report.model_state = kept.model_state;
    return report;
  };
  if (!takes_model_state(file, state, bool(own.load), own_entries(own), options, kept)) return load();
  StateMemory before;
  before.save(own.save);
  try {
    load_state_by(state, own.save, own.load, Unread::allowed);
  } catch (Error const&) {
    if (options.strict) throw;
    kept.model_state = entries_of(state, model_key);
    return load();
  }
  try {
    return load();
  } catch (...) {
    before.put_back(own.load);
    throw;
  }
}

FULGURITE_BODY WeightReport load_path(torch::nn::Module const* model, OwnState const& own,
                                      std::filesystem::path const& path, WeightOptions const& options) {
  if (is_pt_name(path)) {
    auto report = load_weights(model, PtFile(path), options);
    report.model_state = own_entries(own);
    return report;
  }
  SafetensorsFile const file(path);
  auto const state = state_beside_weights(file, bool(own.load));
  WeightReport kept;
  note_data_state(file, state, options, kept);
  auto report = load_model(model, own, file, state, options);
  report.data_state = std::move(kept.data_state);
  return report;
}

FULGURITE_BODY WeightReport load_path(torch::nn::Module const* model, OwnState const& own, OwnState const& data,
                                      std::filesystem::path const& path, WeightOptions const& options) {
  SafetensorsFile const file(path);
  auto const tree = state_with_data(file);
  StateMemory before;
  before.save(data.save);
  load_state_by(tree, data.save, data.load, Unread::allowed);
  try {
    return load_model(model, own, file, tree, options);
  } catch (...) {
    before.put_back(data.load);
    throw;
  }
}

}  // namespace fulgurite::libtorch
