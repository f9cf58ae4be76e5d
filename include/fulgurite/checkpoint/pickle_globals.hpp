#pragma once
// The functions and classes that a pickle of PyTorch's state dicts may name. All others are refused by name.

#include <algorithm>
#include <array>
#include <string_view>

namespace fulgurite::pickle {

/// What calling a global comes to here.
enum class Meaning {
  ordered_dict,  ///< an empty dict
  counter,       ///< the dict that it is given
  tensor,        ///< a tensor from a storage, an offset, a shape and strides
  parameter,     ///< the tensor that it is given
  plain,         ///< a value of no interest
  mentioned,     ///< is only mentioned, and not called
  storage,       ///< the type of a storage; not called
};

struct Known {
  std::string_view name;
  Meaning meaning;
  std::string_view dtype = {};  ///< of a storage, by safetensors' name; empty where safetensors has none
};

inline constexpr std::array<Known, 47> known_globals{{
    {"collections.OrderedDict", Meaning::ordered_dict},
    {"collections.Counter", Meaning::counter},
    {"torch._utils._rebuild_tensor_v2", Meaning::tensor},
    {"torch._utils._rebuild_parameter", Meaning::parameter},
    {"torch.Size", Meaning::plain},
    {"torch.device", Meaning::plain},
    {"_codecs.encode", Meaning::plain},  // how protocol 2 writes bytes
    {"__builtin__.set", Meaning::plain},
    {"builtins.set", Meaning::plain},
    {"__builtin__.complex", Meaning::plain},
    {"builtins.complex", Meaning::plain},
    {"__builtin__.bytearray", Meaning::plain},
    {"builtins.bytearray", Meaning::plain},
    {"torch.float64", Meaning::mentioned},
    {"torch.float32", Meaning::mentioned},
    {"torch.float16", Meaning::mentioned},
    {"torch.bfloat16", Meaning::mentioned},
    {"torch.int64", Meaning::mentioned},
    {"torch.int32", Meaning::mentioned},
    {"torch.int16", Meaning::mentioned},
    {"torch.int8", Meaning::mentioned},
    {"torch.uint8", Meaning::mentioned},
    {"torch.bool", Meaning::mentioned},
    {"torch.complex64", Meaning::mentioned},
    {"torch.complex128", Meaning::mentioned},
    {"torch.strided", Meaning::mentioned},
    {"torch.contiguous_format", Meaning::mentioned},
    {"torch.preserve_format", Meaning::mentioned},
    {"torch.channels_last", Meaning::mentioned},
    {"torch.DoubleStorage", Meaning::storage, "F64"},
    {"torch.FloatStorage", Meaning::storage, "F32"},
    {"torch.HalfStorage", Meaning::storage, "F16"},
    {"torch.BFloat16Storage", Meaning::storage, "BF16"},
    {"torch.LongStorage", Meaning::storage, "I64"},
    {"torch.IntStorage", Meaning::storage, "I32"},
    {"torch.ShortStorage", Meaning::storage, "I16"},
    {"torch.CharStorage", Meaning::storage, "I8"},
    {"torch.ByteStorage", Meaning::storage, "U8"},
    {"torch.BoolStorage", Meaning::storage, "BOOL"},
    {"torch.ComplexDoubleStorage", Meaning::storage},
    {"torch.ComplexFloatStorage", Meaning::storage},
    {"torch.QUInt8Storage", Meaning::storage},
    {"torch.QInt8Storage", Meaning::storage},
    {"torch.QInt32Storage", Meaning::storage},
    {"torch.QUInt4x2Storage", Meaning::storage},
    {"torch.QUInt2x4Storage", Meaning::storage},
    {"torch.storage.UntypedStorage", Meaning::storage},
}};

/// The entry of that name; nullptr for all that may not be named.
constexpr Known const* known(std::string_view name) {
  auto const* const found =
      std::find_if(known_globals.begin(), known_globals.end(), [&](Known const& one) { return one.name == name; });
  return found == known_globals.end() ? nullptr : found;
}

}  // namespace fulgurite::pickle
