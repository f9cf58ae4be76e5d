#pragma once
// Which parameters the steps of this rank use, where the program has promised something about that.

#include <algorithm>
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
    if (std::none_of(items.begin(), items.end(), [](auto const& item) { return item.received; })) return;
    if (promised_.all) require_all(items, replica);
    if (promised_.as_in_first) require_as_in_first(items, list, replica);
  }

  /// Which parameters of a list the steps of this rank use, as far as is known and promised, else null: what waits for
  /// all gradients need not wait for those of the others.
  std::vector<bool> const* used(std::size_t list) const {
    auto const first = first_.find(list);
    return first == first_.end() ? nullptr : &first->second;
  }

 private:
  static void require_all(std::vector<Item> const& items, Replica const& replica) {
    for (auto const& item : items)
      if (!item.received)
        throw Error("fulgurite.distributed.unused_parameter",
                    "this step gave parameter '" + replica.name(item.parameter) +
                        "' no gradient, and find_unused_parameters = false says that each step uses all of them: use "
                        "it in the loss, freeze it, or leave the option out");
  }
  void require_as_in_first(std::vector<Item> const& items, std::size_t list, Replica const& replica) {
    auto const [known, is_first] = first_.try_emplace(list);
    auto& first = known->second;
    if (is_first)
      for (auto const& item : items) first.push_back(item.received);
    for (std::size_t i = 0; i != items.size(); ++i) {
      bool const used = items[i].received;
      if (used == first[i]) continue;
      std::string const otherwise =
          used ? "a gradient, and the first one did not" : "no gradient, and the first one did";
      throw Error("fulgurite.distributed.static_graph",
                  "this step gave parameter '" + replica.name(items[i].parameter) + "' " + otherwise +
                      ", though static_graph = true says that all steps use the same parameters: leave the option out");
    }
  }

  PromisedUse promised_;
  std::unordered_map<std::size_t, std::vector<bool>> first_ = {};  ///< by the number of the list
};

}  // namespace fulgurite::distributed
