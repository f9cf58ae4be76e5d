#pragma once
// Named tensors in one file that every framework reads: `write_safetensors` and `SafetensorsFile`.

#include <fulgurite/checkpoint/safetensors_reader.hpp>
#include <fulgurite/checkpoint/safetensors_writer.hpp>
