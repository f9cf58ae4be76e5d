#pragma once
// The bodies of core/archive.hpp.

#include <cstdint>
#include <map>

#include <fulgurite/core/archive.hpp>

namespace fulgurite {

FULGURITE_BODY StateSaver::StateSaver(ArchiveNode& tree, std::string path, Tensors tensors)
    : tree_(&tree), path_(std::move(path)), tensors_(tensors) {
  if (!std::holds_alternative<ArchiveNode::Object>(tree.value)) tree.value = ArchiveNode::Object{};
}

FULGURITE_BODY void StateSaver::nested(std::string_view key, FunctionRef<void(StateSaver&)> save) {
  StateSaver inner(entry(key), full(key), tensors_);
  save(inner);
}

FULGURITE_BODY std::string StateSaver::full(std::string_view name) const {
  return path_ + (path_.empty() ? "" : ".") + std::string(name);
}

FULGURITE_BODY ArchiveNode& StateSaver::entry(std::string_view name) {
  auto const refuse = [&](char const* why) {
    throw Error("fulgurite.checkpoint.state_name", std::string("'").append(full(name)) + "'" + why);
  };
  if (name.starts_with('$')) refuse(": a name must not start with '$'");
  auto* const made = std::get<ArchiveNode::Object>(tree_->value).add(name);
  if (made == nullptr) refuse(" is saved twice: give each value its own name");
  return *made;
}

FULGURITE_BODY void StateSaver::put_scalar(std::string_view name, archive::Scalar const& value) {
  put_scalar(entry(name), value);
}

FULGURITE_BODY void StateSaver::put_scalar(ArchiveNode& node, archive::Scalar const& value) {
  std::visit([&](auto number) { node.value = number; }, value);
}

FULGURITE_BODY void StateSaver::put_tensor(ArchiveNode& node, SavedTensor const& tensor,
                                           std::string const& path) const {
  if (tensor) node.value = ArchiveTensor{path, tensors_ == Tensors::copied ? tensor.owned() : tensor};
}

FULGURITE_BODY void StateSaver::put_text(std::string_view name, std::string_view text) { put_text(entry(name), text); }

FULGURITE_BODY void StateSaver::put_text(ArchiveNode& node, std::string_view text) { node.value = std::string(text); }

FULGURITE_BODY void StateSaver::put_list(ArchiveNode& node, std::size_t size, std::string const& path,
                                         FunctionRef<void(std::size_t, ArchiveNode&, std::string const&)> put_one) {
  ArchiveNode::List list(size);
  for (std::size_t i = 0; i != size; ++i) put_one(i, list[i], path + "[" + std::to_string(i) + "]");
  node.value = std::move(list);
}

FULGURITE_BODY void StateSaver::put_object(ArchiveNode& node, std::string const& path,
                                           FunctionRef<void(StateSaver&)> save) const {
  StateSaver inner(node, path, tensors_);
  save(inner);
}

FULGURITE_BODY StateLoader::StateLoader(ArchiveNode const& tree, std::string path, Problems* problems, Commits* commits,
                                        Differences* differences)
    : tree_(&tree), path_(std::move(path)), problems_(problems), commits_(commits), differences_(differences) {}

FULGURITE_BODY void StateLoader::leave_out_others() const {
  if (auto const* entries = std::get_if<ArchiveNode::Object>(&tree_->value))
    for (auto const& [name, node] : *entries)
      if (node.read == ArchiveNode::Read::no) node.read = ArchiveNode::Read::need_not;
}

FULGURITE_BODY std::vector<std::string> StateLoader::names() const {
  std::vector<std::string> all;
  if (auto const* entries = std::get_if<ArchiveNode::Object>(&tree_->value))
    for (auto const& [name, node] : *entries) all.push_back(name);
  return all;
}

FULGURITE_BODY void StateLoader::note(FunctionRef<void()> load) {
  if (problems_ == nullptr) return load();
  try {
    load();
  } catch (Error const& error) { problems_->push_back(error); }
}

FULGURITE_BODY bool StateLoader::same_option(std::string_view name, FunctionRef<void(StateSaver&)> give) {
  auto const* const found = tree_->find(name);
  if (found == nullptr) return false;
  found->read = ArchiveNode::Read::need_not;
  ArchiveNode given;
  StateSaver saver(given);
  give(saver);
  auto const there = text(*found), here = text(*given.find(name));
  if (there == here) return true;
  auto const said = [](std::string const& value) { return value == "null" ? "not given" : value.substr(0, 40); };
  if (differences_)
    differences_->push_back("'" + full(name) + "' is " + said(there) + " in the file and " + said(here) +
                            " in the program");
  return false;
}

FULGURITE_BODY bool StateLoader::same_option(std::string_view name, archive::Scalar const& given) {
  return same_option(name, [&](StateSaver& here) { std::visit([&](auto number) { here(name, number); }, given); });
}

FULGURITE_BODY void StateLoader::pass_moved(std::string_view option) const {
  if (auto const* const passed = tree_->find(archive::moved_name(option))) passed->read = ArchiveNode::Read::need_not;
}

FULGURITE_BODY std::optional<archive::ReadScalar> StateLoader::scalar_entry(std::string_view name,
                                                                            archive::ScalarKind kind) {
  std::optional<archive::ReadScalar> read;
  note([&] { read = scalar(entry(name), kind, full(name)); });
  return read;
}

FULGURITE_BODY void StateLoader::nested(std::string_view key, FunctionRef<void(StateLoader&)> load) {
  note([&] {
    StateLoader inner(entry(key), full(key), problems_, commits_, differences_);
    load(inner);
  });
}

FULGURITE_BODY void StateLoader::wrong_kind(ArchiveNode const& node, std::string const& path, char const* kind) {
  wrong(path, std::string("should be ") + kind + ", but is " + brief(node));
}

FULGURITE_BODY void StateLoader::require_size(ArchiveNode::List const& list, std::size_t size,
                                              std::string const& path) {
  if (list.size() != size)
    wrong(path, "should have " + std::to_string(size) + " elements, but has " + std::to_string(list.size()));
}

FULGURITE_BODY void StateLoader::get_list(ArchiveNode::List const& list, std::string const& path,
                                          FunctionRef<void(std::size_t, std::string const&)> get_one) {
  for (std::size_t i = 0; i != list.size(); ++i) get_one(i, path + "[" + std::to_string(i) + "]");
}

FULGURITE_BODY void StateLoader::get_object(ArchiveNode const& node, std::string const& path,
                                            FunctionRef<void(StateLoader&)> load) const {
  as<ArchiveNode::Object>(node, path, "an object");
  StateLoader inner(node, path, problems_, commits_, differences_);
  load(inner);
}

FULGURITE_BODY void StateLoader::get_object(std::string_view name, FunctionRef<void(StateLoader&)> load) {
  note([&] { get_object(entry(name), full(name), load); });
}

FULGURITE_BODY SavedTensor const& StateLoader::tensor_in(ArchiveNode const& node, std::string const& path) {
  static SavedTensor const none;
  if (std::holds_alternative<std::monostate>(node.value)) return none;
  return as<ArchiveTensor>(node, path, "a tensor").tensor;
}

FULGURITE_BODY std::string StateLoader::full(std::string_view name) const {
  return path_ + (path_.empty() ? "" : ".") + std::string(name);
}

FULGURITE_BODY ArchiveNode const& StateLoader::entry(std::string_view name) const {
  auto const* found = tree_->find(name);
  if (found == nullptr)
    wrong(full(name), "is not in the saved state: resume with the parts that it was saved of, or begin a new run with "
                      "its weights, load_weights(model, file)");
  found->read = ArchiveNode::Read::yes;
  return *found;
}

FULGURITE_BODY void StateLoader::wrong(std::string const& path, std::string const& how) {
  throw Error("fulgurite.checkpoint.state_entry", "'" + path + "' " + how);
}

FULGURITE_BODY std::string StateLoader::brief(ArchiveNode const& node) { return text(node).substr(0, 40); }

FULGURITE_BODY std::string StateLoader::text(ArchiveNode const& node) {
  return to_text(node, [](ArchiveTensor const& t) { return "the tensor " + t.tensor.description(); });
}

FULGURITE_BODY archive::ReadScalar StateLoader::scalar(ArchiveNode const& node, archive::ScalarKind const& kind,
                                                       std::string const& path) {
  if (kind.sort == archive::ScalarKind::truth) return {as<bool>(node, path, "true or false")};
  if (kind.sort == archive::ScalarKind::real) return {0, as<double>(node, path, "a floating-point number")};
  auto const* const large = std::get_if<std::uint64_t>(&node.value);
  auto const number = large ? 0 : as<std::int64_t>(node, path, "an integer");
  auto const bits = large ? *large : static_cast<std::uint64_t>(number);
  if (large || number >= 0 ? bits > kind.most : number < kind.least) wrong(path, "does not fit: " + brief(node));
  return {bits};
}

FULGURITE_ALL_ARCHIVED(FULGURITE_INSTANTIATE);

FULGURITE_BODY void copy_handles(std::span<SavedTensor* const> handles, CopyTo where) {
  std::map<SavedTensor::Keep, std::vector<SavedTensor*>> by_library;
  for (auto* const one : handles)
    if (auto const keep = one->keep()) by_library[keep].push_back(one);
  for (auto const& [keep, of_library] : by_library) keep(of_library, where);
}

FULGURITE_BODY void keep_tensors(ArchiveNode& tree, Copied which) {
  std::vector<SavedTensor*> handles;
  each_tensor(tree, [&](ArchiveTensor& one) {
    if (which == Copied::written_soon && one.tensor.is_written_last()) return;
    if (one.tensor.keep() != nullptr) handles.push_back(&one.tensor);
    else one.tensor = one.tensor.owned();
  });
  copy_handles(handles, CopyTo::same_device);
}

FULGURITE_BODY std::vector<std::string> unread_entries(ArchiveNode const& node, std::string const& path) {
  std::vector<std::string> all;
  auto const add = [&all](std::vector<std::string> more) {
    for (auto& name : more) all.push_back(std::move(name));
  };
  if (auto const* const list = std::get_if<ArchiveNode::List>(&node.value))
    for (std::size_t i = 0; i != list->size(); ++i)
      add(unread_entries((*list)[i], path + "[" + std::to_string(i) + "]"));
  if (auto const* const object = std::get_if<ArchiveNode::Object>(&node.value))
    for (auto const& [name, entry] : *object) {
      auto full = path + (path.empty() ? "" : ".") + name;
      if (entry.read == ArchiveNode::Read::yes) add(unread_entries(entry, full));
      else if (entry.read == ArchiveNode::Read::no) all.push_back(std::move(full));
    }
  return all;
}

/// The Error for unread entries.
FULGURITE_BODY Error refuse_unread(std::vector<std::string> const& names) {
  std::string list;
  for (auto const& name : names) list += (list.empty() ? "'" : ", '") + name + "'";
  return Error("fulgurite.checkpoint.state_unread",
               "the saved state holds what nothing here is loaded from: " + list +
                   ": resume with the program that saved it, or begin a new run with its weights by load_weights");
}

FULGURITE_BODY void load_state_by(ArchiveNode const& tree, FunctionRef<void(StateSaver&)> save,
                                  FunctionRef<void(StateLoader&)> load, Unread unread) {
  ArchiveNode before;
  StateSaver saver(before, {}, StateSaver::Tensors::borrowed);
  save(saver);
  keep_tensors(before, Copied::written_soon);
  auto const go_back = [&] {
    StateLoader loader(before);
    load(loader);
  };
  StateLoader::Problems problems;
  StateLoader::Commits commits;
  StateLoader::Differences differences;
  try {
    StateLoader loader(tree, {}, &problems, &commits, &differences);
    load(loader);
  } catch (...) {
    go_back();
    throw;
  }
  if (unread == Unread::refused && problems.empty())
    if (auto const names = unread_entries(tree); !names.empty()) problems.push_back(refuse_unread(names));
  if (problems.empty()) {
    for (auto const& commit : commits) commit();
    return;
  }
  go_back();
  throw all_of(problems);
}

FULGURITE_BODY void StateMemory::save(FunctionRef<void(StateSaver&)> fold) {
  ArchiveNode now;
  StateSaver saver(now, {}, StateSaver::Tensors::borrowed);
  fold(saver);
  keep_tensors(now);
  tree_ = std::move(now);
}

FULGURITE_BODY void StateMemory::add_to(StateSaver& archive) const {
  if (auto const* const entries = std::get_if<ArchiveNode::Object>(&tree_.value))
    for (auto const& entry : *entries) archive(entry.name, entry.node);
}

FULGURITE_BODY bool StateMemory::add_to(StateSaver& archive, std::string_view name) const {
  auto const* const entries = std::get_if<ArchiveNode::Object>(&tree_.value);
  auto const* const found = entries ? entries->find(name) : nullptr;
  if (found != nullptr) archive(name, *found);
  return found != nullptr;
}

FULGURITE_BODY void StateMemory::take(std::string_view name, StateLoader& archive) {
  ArchiveNode::Object alone;
  archive(name, *alone.add(name));
  tree_.value = std::move(alone);
  keep_tensors(tree_);
}

FULGURITE_BODY void StateMemory::visit(FunctionRef<void(StateSaver&)> fold) {
  ArchiveNode passing;
  StateSaver saver(passing, {}, StateSaver::Tensors::borrowed);
  fold(saver);
}

FULGURITE_BODY void StateMemory::restore(FunctionRef<void(StateLoader&)> fold) const {
  StateLoader loader(tree_);
  fold(loader);
}

}  // namespace fulgurite
