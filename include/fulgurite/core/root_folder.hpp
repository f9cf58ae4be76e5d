#pragma once
// A folder among options that the compiler can know: nothing is allocated for the default.

#include <concepts>
#include <filesystem>
#include <memory>
#include <utility>

namespace fulgurite {

/// The current folder, or the one that was given. A std::filesystem::path is no type for constants, so it is made only
/// when there is one.
class RootFolder {
 public:
  constexpr RootFolder() = default;
  template <class T>
    requires(std::constructible_from<std::filesystem::path, T> && !std::same_as<std::remove_cvref_t<T>, RootFolder>)
  RootFolder(T&& path) : given_(new std::filesystem::path(std::forward<T>(path))) {}
  constexpr RootFolder(RootFolder const& other)
      : given_(other.given_ ? new std::filesystem::path(*other.given_) : nullptr) {}
  constexpr RootFolder(RootFolder&& other) noexcept : given_(std::exchange(other.given_, nullptr)) {}
  constexpr RootFolder& operator=(RootFolder other) noexcept {
    std::swap(given_, other.given_);
    return *this;
  }
  constexpr ~RootFolder() {
    if (given_) delete given_;
  }

  std::filesystem::path path() const { return given_ ? *given_ : std::filesystem::path("."); }
  operator std::filesystem::path() const { return path(); }
  friend std::filesystem::path operator/(RootFolder const& folder, std::filesystem::path const& name) {
    return folder.path() / name;
  }

 private:
  std::filesystem::path* given_ = nullptr;
};

}  // namespace fulgurite
