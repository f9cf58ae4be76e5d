#pragma once
// How many fits of one name this program has ended well: so those of one model type that follow each other are told
// apart, in this process and in the next one of the program.

#include <map>
#include <mutex>
#include <string>

namespace fulgurite::checkpointing {

/// Counts by name. One object serves the whole process.
class EndedFits {
 public:
  static EndedFits& of_process() {
    static EndedFits all;
    return all;
  }
  long count(std::string const& name) {
    std::lock_guard const alone(mutex_);
    auto const found = by_name_.find(name);
    return found == by_name_.end() ? 0 : found->second;
  }
  void add(std::string const& name) {
    std::lock_guard const alone(mutex_);
    ++by_name_[name];
  }

 private:
  std::mutex mutex_{};
  std::map<std::string, long> by_name_{};
};

}  // namespace fulgurite::checkpointing
