#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#define GLOO_STORE_HAS_STORE_V2

namespace gloo::rendezvous {

/// The base of c10d::ProcessGroupGloo::GlooStore, which is never made here.
class Store {
 public:
  virtual ~Store() = default;
  virtual void set(std::string const& key, std::vector<char> const& data) = 0;
  virtual std::vector<char> get(std::string const& key) = 0;
  virtual void wait(std::vector<std::string> const& keys) = 0;
  virtual void wait(std::vector<std::string> const& keys, std::chrono::milliseconds const& timeout) = 0;
  virtual bool has_v2_support() = 0;
  virtual std::vector<std::vector<char>> multi_get(std::vector<std::string> const& keys) = 0;
  virtual void multi_set(std::vector<std::string> const& keys, std::vector<std::vector<char>> const& values) = 0;
  virtual void append(std::string const& key, std::vector<char> const& data) = 0;
  virtual std::int64_t add(std::string const& key, std::int64_t value) = 0;
};

}  // namespace gloo::rendezvous
