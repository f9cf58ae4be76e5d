#pragma once
// Writes saved state as text, from which this file makes the same state again, bit for bit.

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

// JSON has no NaN, no infinity and no text that is not UTF-8. Such a value is written as an object with one member
// whose name begins with '$'; no entry of a state may have such a name. A double always has a point, an exponent or
// this form, so it never reads back as an integer.
std::string text_of(double value);
std::string text_of(std::string const& value);

/// A tensor with its bytes as hexadecimal digits, for texts that have no file beside them.
std::string text_with_bytes(ArchiveTensor const& tensor);

}  // namespace archive

/// A tree as compact JSON. `tensor_text(ArchiveTensor const&)` returns what stands for a tensor.
std::string to_text(ArchiveNode const& node, FunctionRef<std::string(ArchiveTensor const&)> tensor_text);
/// A tree as compact JSON that contains the bytes of its tensors.
std::string to_text(ArchiveNode const& node);

// Reads saved state from the text that archive_text.hpp writes.

namespace archive {

/// Finds the tensor of a name, for texts that name their tensors instead of containing their bytes.
using TensorLookup = std::function<SavedTensor(std::string const& name)>;

/// The bytes that hexadecimal digits stand for.
std::string unhex(json::Reader& in, std::string_view text);

/// A tensor: the name of one in the file beside the text, or an object with its type, shape and bytes.
ArchiveNode tensor(json::Reader& in, TensorLookup const& lookup);

/// The value of an object whose one member has a name that begins with '$'.
ArchiveNode special(json::Reader& in, std::string const& key, TensorLookup const& lookup);

/// A number with a point or an exponent is a double, any other an integer.
ArchiveNode number(json::Reader& in);

/// Any value.
ArchiveNode read(json::Reader& in, TensorLookup const& lookup);

}  // namespace archive

/// The tree that a text was made from. `source` is what an Error [fulgurite.checkpoint.state_text] calls the text,
/// `lookup` finds tensors that the text names.
ArchiveNode from_text(std::string_view text, std::string source = "saved state",
                      archive::TensorLookup const& lookup = {});

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/core/archive_text.ipp>
#endif
