#pragma once
// A folder among options that the compiler can know: nothing is allocated for the default.

#include <concepts>
#include <filesystem>
#include <memory>
#include <utility>

namespace fulgurite {

/// The current folder, or the one that was given. A std::filesystem::path is no type for constants, so it is made only when there is one.
class Folder {
 public:
  constexpr Folder() = default;
  template <class T>
    requires(std::constructible_from<std::filesystem::path, T> && !std::same_as<std::remove_cvref_t<T>, Folder>)
  Folder(T&& path) : given_(new std::filesystem::path(std::forward<T>(path))) {}
  constexpr Folder(Folder const& other) : given_(other.given_ ? new std::filesystem::path(*other.given_) : nullptr) {}
  constexpr Folder(Folder&& other) noexcept : given_(std::exchange(other.given_, nullptr)) {}
  constexpr Folder& operator=(Folder other) noexcept {
    std::swap(given_, other.given_);
    return *this;
  }
  constexpr ~Folder() {
    if (given_) delete given_;
  }

  std::filesystem::path path() const { return given_ ? *given_ : std::filesystem::path("."); }
  operator std::filesystem::path() const { return path(); }
  friend std::filesystem::path operator/(Folder const& folder, std::filesystem::path const& name) { return folder.path() / name; }

 private:
  std::filesystem::path* given_ = nullptr;
};

}  // namespace fulgurite
