#pragma once
// What a model keeps beside its tensors, as bytes: its own members, the options of LibTorch's layers, and of all other
// modules the lists of their parameters and children.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <torch/nn/module.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/torch/capture/known_layers.hpp>
#include <fulgurite/torch/capture/words_in_memory.hpp>

namespace fulgurite::libtorch::capture {

/// The model as an object of its own type.
struct Object {
  void const* at;
  std::size_t size;
};

/// If a number, a handle or a pointer is another than when a step was recorded, some of these bytes differ, whatever
/// its type is. They are only read.
class HostBytes {
  struct Part {
    char const* at;
    std::size_t size;
    std::string name;
    torch::nn::Module const* layer;
    std::string text = {};

    std::string described() const {
      std::ostringstream out;
      layer->pretty_print(out);
      auto const text_of_it = out.str();
      return text_of_it.starts_with("torch::nn::") ? text_of_it.substr(11) : text_of_it;
    }
    std::string change() const {
      if (!layer) return "a member of the model has changed";
      auto const is = described();
      return is == text ? name + " (" + is + ") has another parameter, buffer, layer or option"
                        : name + " was " + text + ", is " + is;
    }
  };

 public:
  HostBytes(Object model, torch::nn::Module const& module) {
    add({static_cast<char const*>(model.at), model.size, {}, nullptr});
    for (auto const& layer : module.named_modules(std::string(), false)) {
      auto const size = size_of_known(*layer.value());
      auto const* at = size != 0 ? dynamic_cast<void const*>(layer.value().get()) : layer.value().get();
      if (size == 0) unseen_.push_back(layer.key());
      Part part{static_cast<char const*>(at), size != 0 ? size : sizeof(torch::nn::Module), layer.key(),
                layer.value().get()};
      part.text = part.described();
      add(std::move(part));
    }
    lay_out();
  }

  FULGURITE_BULK std::vector<char> now() const {
    std::vector<char> all(passes_.size());
    auto* to = all.data();
    for (auto const& part : parts_) to = static_cast<char*>(std::memcpy(to, part.at, part.size)) + part.size;
    return all;
  }

  /// Asked before each replay: whether the bytes are as before, but for those that are known to change although the
  /// step stays the same.
  bool same(std::vector<char> const& before) const {
    for (auto const& quiet : quiet_)
      if (std::memcmp(quiet.at, before.data() + quiet.offset, quiet.size) != 0) return false;
    return true;
  }

  /// The step was the same although these bytes differ, as those of a counter do. After `patience` such steps a byte is
  /// not looked at any more.
  FULGURITE_BULK void learn(std::vector<char> const& before, std::vector<char> const& after, std::uint8_t patience) {
    bool any = false;
    for (std::size_t i = 0; i != passes_.size(); ++i) {
      if (before[i] == after[i] || passes_[i] == enough) continue;
      if (++passes_[i] >= patience) {
        passes_[i] = enough;
        any = true;
      }
    }
    if (any) lay_out();
  }

  /// What has changed since `before`, in the user's words; empty if nothing can be seen. A std::vector that has grown
  /// is passed over: hooks put something into one in each step, and that its memory is elsewhere now explains nothing.
  FULGURITE_BULK std::string changed(std::vector<char> const& before) const {
    std::size_t offset = 0;
    for (auto const& part : parts_) {
      for (std::size_t i = 0; i != part.size; ++i)
        if (passes_[offset + i] != enough && part.at[i] != before[offset + i] &&
            (part.layer || !is_of_grown_vector(part.at, before.data() + offset, part.size, i)))
          return part.change();
      offset += part.size;
    }
    return {};
  }

  /// While this lives, the numbers that differ from `before` are what they were. A word that may be an address
  /// is left alone, since what it pointed to may be gone.
  class Earlier {
   public:
    Earlier(HostBytes const& host, std::vector<char> const& before) {
      std::size_t offset = 0;
      for (auto const& part : host.parts_) {
        for (std::size_t i = 0; i < part.size; i += bytes_of_word) add(host, part, before.data() + offset, offset, i);
        offset += part.size;
      }
      if (!whole_) return;
      for (auto const& byte : bytes_) *byte.at = byte.before;
    }
    ~Earlier() {
      if (!whole_) return;
      for (auto const& byte : bytes_) *byte.at = byte.now;
    }
    Earlier(Earlier const&) = delete;
    Earlier& operator=(Earlier const&) = delete;
    /// Whether nothing but numbers has changed.
    bool whole() const { return whole_; }

   private:
    struct Byte {
      char* at;
      char before, now;
    };
    FULGURITE_BULK void add(HostBytes const& host, Part const& part, char const* before, std::size_t offset,
                            std::size_t first) {
      std::size_t const end = std::min(first + bytes_of_word, part.size);
      auto const* passes = host.passes_.data() + offset;
      if (std::find(passes + first, passes + end, enough) != passes + end) return;  // it changes all the time
      std::size_t const known = bytes_.size();
      for (std::size_t i = first; i != end; ++i)
        if (part.at[i] != before[i] &&
            (part.layer || !is_of_grown_vector(part.at, before, part.size, i)))  // handles in a layer look alike
          bytes_.push_back({const_cast<char*>(part.at + i), before[i], part.at[i]});
      if (bytes_.size() != known &&
          (may_be_address(before + first, end - first) || may_be_address(part.at + first, end - first)))
        whole_ = false;
    }
    std::vector<Byte> bytes_;
    bool whole_ = true;
  };

  /// The names of modules of which only the lists of parameters and children can be seen.
  std::vector<std::string> const& unseen() const { return unseen_; }

 private:
  struct Quiet {
    char const* at;
    std::size_t offset, size;
  };
  static constexpr std::uint8_t enough = 255;

  void add(Part part) {
    passes_.resize(passes_.size() + part.size);
    parts_.push_back(std::move(part));
  }
  /// Collects the stretches of bytes that are looked at before each replay.
  FULGURITE_BULK void lay_out() {
    quiet_.clear();
    std::size_t offset = 0;
    for (auto const& part : parts_) {
      for (std::size_t i = 0; i != part.size;) {
        std::size_t end = i;
        while (end != part.size && passes_[offset + end] != enough) ++end;
        if (end != i) quiet_.push_back({part.at + i, offset + i, end - i});
        i = end == part.size ? end : end + 1;
      }
      offset += part.size;
    }
  }

  std::vector<Part> parts_;
  std::vector<std::uint8_t> passes_;  ///< of each byte: how often it had changed in a step that was the same
  std::vector<Quiet> quiet_;
  std::vector<std::string> unseen_;
};

}  // namespace fulgurite::libtorch::capture
