#pragma once
// Which parameters the steps of this rank use, where the program has promised something about that.

#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

#include <fulgurite/core/error.hpp>
#include <fulgurite/distributed/exchange_plan.hpp>
#include <fulgurite/distributed/replica.hpp>

namespace fulgurite::distributed {

/// What a program says of the parameters that its steps use.
struct PromisedUse {
  bool all = false;          ///< every step uses every parameter
  bool as_in_first = false;  ///< every step uses those that the first one used
};

/// Holds steps to what was promised. A step of this rank in which nothing was made, since it left its batch out, says
/// nothing.
class UsedParameters {
 public:
  explicit UsedParameters(PromisedUse promised) : promised_(promised) {}

  /// Before the gradients of a step are exchanged; `list`: the number of its list of parameters. An Error that names
  /// the first parameter of which the promise is not true.
  void check(std::vector<Item> const& items, std::size_t list, Replica const& replica) {
    if (!promised_.all && !promised_.as_in_first) return;
    std::vector<bool> used;
    bool any = false;
    for (auto const& item : items) used.push_back(item.received), any = any || item.received;
    if (!any) return;
    if (promised_.all) require_all(items, used, replica);
    if (promised_.as_in_first) require_as_in_first(items, used, list, replica);
  }

  /// The parameters of a list that no step of this rank uses, as far as is known and promised: what waits for all
  /// gradients need not wait for theirs.
  std::vector<bool> unused(std::size_t list, std::size_t size) const {
    std::vector<bool> result(size, false);
    if (auto const first = first_.find(list); first != first_.end())
      for (std::size_t i = 0; i != size; ++i) result[i] = !first->second[i];
    return result;
  }

 private:
  static void require_all(std::vector<Item> const& items, std::vector<bool> const& used, Replica const& replica) {
    for (std::size_t i = 0; i != items.size(); ++i)
      if (!used[i])
        throw Error("fulgurite.distributed.unused_parameter",
                    "this step gave parameter '" + replica.name(items[i].parameter) +
                        "' no gradient, and find_unused_parameters = false says that each step uses all of them: use "
                        "it in the loss, freeze it, or leave the option out");
  }
  void require_as_in_first(std::vector<Item> const& items, std::vector<bool> const& used, std::size_t list,
                           Replica const& replica) {
    auto const& first = first_.try_emplace(list, used).first->second;
    for (std::size_t i = 0; i != items.size(); ++i) {
      if (used[i] == first[i]) continue;
      std::string const otherwise =
          used[i] ? "a gradient, and the first one did not" : "no gradient, and the first one did";
      throw Error("fulgurite.distributed.static_graph",
                  "this step gave parameter '" + replica.name(items[i].parameter) + "' " + otherwise +
                      ", though static_graph = true says that all steps use the same parameters: leave the option out");
    }
  }

  PromisedUse promised_;
  std::unordered_map<std::size_t, std::vector<bool>> first_ = {};  ///< by the number of the list
};

}  // namespace fulgurite::distributed
