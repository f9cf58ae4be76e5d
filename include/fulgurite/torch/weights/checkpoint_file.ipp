#pragma once
// The bodies of torch/weights/checkpoint_file.hpp.

#include <algorithm>
#include <array>
#include <fstream>
#include <functional>

#include <fulgurite/core/text.hpp>
#include <fulgurite/torch/weights/checkpoint_file.hpp>

namespace fulgurite {

FULGURITE_BULK_BODY WeightReport::WeightReport() = default;
FULGURITE_COPIES_BODY(WeightReport);

}  // namespace fulgurite

namespace fulgurite::libtorch {

FULGURITE_BODY MappedName mapped_name(std::string_view name, WeightOptions const& options) {
  auto prefixes = options.remove_prefix;
  for (auto at = prefixes.begin(); at != prefixes.end();) {
    if (at->empty() || !name.starts_with(*at)) {
      ++at;
      continue;
    }
    name.remove_prefix(at->size());
    prefixes.erase(at);  // each prefix is removed once: a model may have such a name inside
    at = prefixes.begin();
  }
  if (!name.starts_with(options.from)) return {std::string(name), false};
  return {std::string(name.substr(options.from.size())), true};
}

FULGURITE_INSTANTIATE(std::vector<FileWeight> file_weights(SafetensorsFile const&));
FULGURITE_INSTANTIATE(std::vector<FileWeight> file_weights(PtFile const&));

/// The tensors of a file by their names in the model.
FULGURITE_BODY std::map<std::string, FileWeight, std::less<>> mapped_weights(std::vector<FileWeight> const& file,
                                                                             WeightOptions const& options) {
  std::map<std::string, FileWeight, std::less<>> mapped;
  for (auto const& entry : file) {
    auto const [name, wanted] = mapped_name(entry.name, options);
    if (!wanted) continue;
    auto const [place, fresh] = mapped.emplace(name, entry);
    if (!fresh)
      throw Error("fulgurite.checkpoint.weight_names", "without their prefixes '" + std::string(place->second.name) +
                                                           "' and '" + std::string(entry.name) + "' are both '" + name +
                                                           "': give fewer prefixes in .remove_prefix");
  }
  return mapped;
}

FULGURITE_BODY FittingPrefix fitting_prefix(std::set<std::string, std::less<>> const& names,
                                            std::set<std::string, std::less<>> const& wanted) {
  std::map<std::string_view, std::size_t> fits;
  for (std::string_view const name : names)
    for (auto dot = name.find('.'); dot != name.npos; dot = name.find('.', dot + 1))
      if (wanted.contains(name.substr(dot + 1))) ++fits[name.substr(0, dot + 1)];
  auto const more = [](auto const& a, auto const& b) { return a.second < b.second; };
  auto const best = std::max_element(fits.begin(), fits.end(), more);
  if (best == fits.end()) return {};
  auto const has_it = [&](std::string_view name) { return name.starts_with(best->first); };
  return {std::string(best->first), std::all_of(names.begin(), names.end(), has_it)};
}

/// Advice for a file of which no name is in the model; empty if no prefix helps.
FULGURITE_BODY std::string prefix_advice(std::vector<FileWeight> const& file,
                                         std::set<std::string, std::less<>> const& model) {
  std::set<std::string, std::less<>> names;
  for (auto const& entry : file) names.emplace(entry.name);
  auto const [prefix, of_all] = fitting_prefix(names, model);
  if (of_all) return "All names begin with '" + prefix + "': say {.remove_prefix = {\"" + prefix + "\"}}";
  if (!prefix.empty()) return "Those that begin with '" + prefix + "' fit: say {.from = \"" + prefix + "\"}";
  auto const part = fitting_prefix(model, names).prefix;
  if (part.empty()) return {};
  return "They fit the part '" + part.substr(0, part.size() - 1) + "' of the model: load them into that part";
}

FULGURITE_BULK_BODY at::ScalarType element_type(std::string_view name) {
  for (auto const& known : element_names)
    if (known.name == name) return known.type;
  return at::ScalarType::Undefined;
}

/// True if a tensor of the file may be loaded into this one of the model.
FULGURITE_BODY bool may_load(at::Tensor const& to, std::string_view dtype, std::vector<std::int64_t> const& shape,
                             WeightOptions const& options) {
  auto const type = element_type(dtype);
  bool const converts = options.convert && at::isFloatingType(type) && at::isFloatingType(to.scalar_type());
  return (type == to.scalar_type() || converts) && to.sizes().vec() == shape;
}

/// Throws the Error that lists everything that does not fit; `details` describes tensors that differ, `by_type` is true
/// if one of them does in its floating-point type alone.
[[noreturn]] FULGURITE_BODY void refuse_weights(std::vector<FileWeight> const& file, WeightReport const& report,
                                                std::string const& details, bool by_type,
                                                std::set<std::string, std::less<>> const& names) {
  std::string problems;
  auto const say = [&](char const* what, std::string const& list) {
    if (!list.empty()) append_item(problems, what + list, "; ");
  };
  say("missing in the file: ", listed(report.missing));
  say("unknown to the model: ", listed(report.unexpected));
  say("different: ", details);
  std::string const advice = by_type                 ? "Numbers of another type are converted with {.convert = true}"
                             : report.loaded.empty() ? prefix_advice(file, names)
                                                     : "";
  throw Error("fulgurite.checkpoint.weights_mismatch",
              "these weights are not this model's; " + problems + ". " +
                  (advice.empty() ? "Load them into a model that is built exactly as the saved one, or what fits of "
                                    "them, with {.strict = false}; a part of a model takes its names of a file with "
                                    "{.from = \"part.\"}"
                                  : advice));
}

/// Throws the Error for a file of which no name is in the model.
[[noreturn]] FULGURITE_BODY void refuse_no_name(std::vector<FileWeight> const& file, std::size_t taken,
                                                std::set<std::string, std::less<>> const& names,
                                                WeightOptions const& options) {
  auto const first = file.empty() ? "no tensors" : "'" + std::string(file.front().name) + "' among its names";
  auto const advice = prefix_advice(file, names);
  throw Error("fulgurite.checkpoint.no_weight_fits",
              (taken == 0 && !options.from.empty() ? "no name in the file begins with .from = \"" + options.from + "\""
                                                   : "no name in the file is one of the model's, with these options") +
                  ", so nothing would be loaded: the file has " + first + ", the model '" + *names.begin() + "'" +
                  (advice.empty() ? ": load it into the model that it is of" : ". " + advice));
}

FULGURITE_BODY WeightReport load_named_weights(torch::nn::Module const* model, std::vector<FileWeight> const& file,
                                               FunctionRef<void(std::size_t, std::span<std::byte>)> read,
                                               WeightOptions const& options) {
  at::NoGradGuard const no_graph;
  auto const entries = mapped_weights(file, options);
  WeightReport report;
  std::string details;
  bool by_type = false;
  std::set<std::string, std::less<>> names;
  std::vector<std::pair<at::Tensor, FileWeight>> found;
  each_named_tensor(model, [&](std::string const& name, at::Tensor const& tensor) {
    names.insert(name);
    auto const at = entries.find(name);
    if (at == entries.end()) {
      report.missing.push_back(name);
      return;
    }
    auto const& entry = at->second;
    if (may_load(tensor, entry.dtype, *entry.shape, options)) {
      report.loaded.push_back(name);
      found.emplace_back(tensor, entry);
      return;
    }
    report.different.push_back(name);
    by_type = by_type || may_load(tensor, entry.dtype, *entry.shape, {.convert = true});
    append_item(details, name + " (the file has " + std::string(entry.dtype) + " " + shape_text(*entry.shape) +
                             ", the model " + std::string(element_name(tensor.scalar_type(), name)) + " " +
                             shape_text(tensor.sizes()) + ")");
  });
  for (auto const& [name, entry] : entries)
    if (!names.contains(name)) report.unexpected.emplace_back(entry.name);
  if (options.strict && !(report.missing.empty() && report.unexpected.empty() && report.different.empty()))
    refuse_weights(file, report, details, by_type, names);
  if (report.loaded.empty() && report.different.empty() && !names.empty())
    refuse_no_name(file, entries.size(), names, options);

  std::vector<at::Tensor> hosts;
  for (auto const& [tensor, entry] : found) {
    auto& host = hosts.emplace_back(at::empty(tensor.sizes(), at::TensorOptions(element_type(entry.dtype))));
    read(entry.index, {static_cast<std::byte*>(host.mutable_data_ptr()), host.nbytes()});
  }
  for (std::size_t i = 0; i != found.size(); ++i) found[i].first.copy_(hosts[i]);
  return report;
}

FULGURITE_INSTANTIATE(WeightReport load_weights(torch::nn::Module const*, SafetensorsFile const&,
                                                WeightOptions const&));
FULGURITE_INSTANTIATE(WeightReport load_weights(torch::nn::Module const*, PtFile const&, WeightOptions const&));

FULGURITE_BULK_BODY RunFile::RunFile(std::filesystem::path const& path) {
  if (is_pt_name(path) && is_zip(path)) {  // a ModelCheckpoint's own files may also have such an extension
    file_.emplace<PtFile>(path);
  } else {
    tree_ = run_state_if_any(file_.emplace<SafetensorsFile>(path));
  }
}

FULGURITE_MOVES_BODY(RunFile);

FULGURITE_BODY bool RunFile::is_zip(std::filesystem::path const& path) {
  std::array<char, 4> first{};
  std::ifstream(path, std::ios::binary).read(first.data(), first.size());
  return first == std::array{'P', 'K', '\3', '\4'};
}

FULGURITE_BODY void RunFile::load_into(torch::nn::Module const* model) const {
  if (auto const* const ours = std::get_if<SafetensorsFile>(&file_))
    libtorch::load_weights(model, *ours, {.convert = true});
  else libtorch::load_weights(model, std::get<PtFile>(file_), {.convert = true});
}

FULGURITE_BODY std::string RunFile::difference_from(torch::nn::Module const* model,
                                                    FunctionRef<void(StateSaver&)> fold) const {
  auto const* const ours = std::get_if<SafetensorsFile>(&file_);
  if (ours == nullptr) return {};
  auto const each_shape = [&](TakeShape f) {
    each_named_tensor(model, [&](std::string const& name, at::Tensor const& tensor) {
      f(name, element_name(tensor, name), tensor.sizes().vec());
    });
  };
  return assembly_difference(*ours, tree_, each_shape, fold);
}

/// Names for an Error, such as "('seen', 'mean')".
FULGURITE_BODY std::string in_brackets(std::vector<std::string> const& names) {
  std::string all;
  for (auto const& name : names) all += (all.empty() ? "('" : ", '") + name + "'";
  return all + ")";
}

/// Loading only weights would drop what the file keeps for predictions, so a strict load of a whole file throws if the
/// file has the state of a data module; otherwise that state's entries are added to the report.
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

/// The names of a model's own state, besides its weights.
FULGURITE_BODY std::vector<std::string> own_entries(OwnState const& own) {
  ArchiveNode state;
  StateSaver saver(state, {}, StateSaver::Tensors::borrowed);
  if (own.save) own.save(saver);
  return entries_of(state, model_key);
}

/// True if a load takes the model's own state from the file. State that only the file or only the model has is added to
/// the report; a strict load of a whole run's file throws. A part of a model does not use the state of the whole.
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
    before.restore(own.load);
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
    before.restore(data.load);
    throw;
  }
}

FULGURITE_BODY void save(std::filesystem::path const& path, torch::nn::Module const* model,
                         FunctionRef<void(StateSaver&)> state, std::span<Hyperparameter const> hyperparameters) {
  save_run_file(path, [&](TakeWeight f) { each_weight(model, f); }, state, hyperparameters);
}

FULGURITE_BODY void save(RunImage& into, torch::nn::Module const* model, FunctionRef<void(StateSaver&)> state,
                         std::span<Hyperparameter const> hyperparameters) {
  into.take([&](TakeWeight f) { each_weight(model, f); }, state, hyperparameters);
}

}  // namespace fulgurite::libtorch
