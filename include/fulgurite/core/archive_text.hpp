#pragma once
// Writes saved state as text, from which the same state can be restored bit for bit.

#include <charconv>
#include <functional>
#include <string>
#include <string_view>

#include <fulgurite/core/archive_tree.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/core/function_ref.hpp>
#include <fulgurite/core/json.hpp>

namespace fulgurite {

namespace archive {

/// Bytes as hexadecimal digits, two for each.
std::string hex(std::string_view bytes);

template <class I>
std::string decimal(I value, int base = 10) {
  char text[72];
  return {text, std::to_chars(text, text + sizeof text, value, base).ptr};
}

// JSON has no NaN, no infinity and no strings that are not UTF-8. Such a value is written as an object with one member
// whose name begins with '$'; no entry of a state may have such a name. A double always has a point, an exponent or
// this form, so it is never read back as an integer.
std::string text_of(double value);
std::string text_of(std::string const& value);

/// A tensor with its bytes as hexadecimal digits, for texts without a file for the tensors.
std::string text_with_bytes(ArchiveTensor const& tensor);

}  // namespace archive

/// A tree as compact JSON. `tensor_text(ArchiveTensor const&)` returns the text for a tensor.
std::string to_text(ArchiveNode const& node, FunctionRef<std::string(ArchiveTensor const&)> tensor_text);
/// A tree as compact JSON that contains the bytes of its tensors.
std::string to_text(ArchiveNode const& node);

// Reads saved state from such a text.

namespace archive {

/// Finds a tensor by its name, for texts that contain names of tensors instead of their bytes.
using TensorLookup = std::function<SavedTensor(std::string const& name)>;

/// The bytes of a text of hexadecimal digits.
std::string unhex(json::Reader& in, std::string_view text);

/// A tensor: the name of one in the text's file, or an object with its type, shape and bytes.
ArchiveNode tensor(json::Reader& in, TensorLookup const& lookup);

/// The value of an object whose only member has a name that begins with '$'.
ArchiveNode special(json::Reader& in, std::string const& key, TensorLookup const& lookup);

/// A number with a point or an exponent is a double, any other an integer.
ArchiveNode number(json::Reader& in);

/// Any value.
ArchiveNode read(json::Reader& in, TensorLookup const& lookup);

}  // namespace archive

/// The tree from which a text was made. `source` names the text in an Error [fulgurite.checkpoint.state_text]; `lookup`
/// finds tensors that the text names.
ArchiveNode from_text(std::string_view text, std::string source = "saved state",
                      archive::TensorLookup const& lookup = {});

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/core/archive_text.ipp>
#endif
