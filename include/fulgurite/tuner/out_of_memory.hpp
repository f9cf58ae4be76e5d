#pragma once
// Whether an exception says that memory has ended.

#include <exception>
#include <new>

namespace fulgurite::tune {

/// Of the C++ library, of the tensor library, or nested in an exception that tells where it was met.
template <class Backend>
bool out_of_memory(std::exception const& error) {
  if (dynamic_cast<std::bad_alloc const*>(&error) != nullptr || Backend::out_of_memory(error)) return true;
  try {
    std::rethrow_if_nested(error);
  } catch (std::exception const& inner) { return out_of_memory<Backend>(inner); } catch (...) {
  }
  return false;
}

}  // namespace fulgurite::tune
