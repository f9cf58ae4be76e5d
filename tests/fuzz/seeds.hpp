#pragma once
// Every target of targets.hpp with an input that it accepts: where the unit suite and libFuzzer begin.

#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <zlib.h>

#include "../unit/checkpoint_pt_bytes.hpp"
#include "targets.hpp"

namespace fuzz {

struct Target {
  std::string_view name;
  bool (*run)(std::string_view);
  std::string good;
};

namespace seed {

using namespace pt_bytes;

inline std::string const weights = pt_bytes::dict({{"w", tensor({.shape = {2, 3}, .strides = {3, 1}, .count = 6})},
                                                   {"t", tensor({.shape = {3, 2}, .strides = {1, 3}, .count = 6})}});
inline std::string const pickled = proto + "}(" + text("epoch") + integer(3) + text("list") + "](Nq" +
                                   std::string(1, '\0') + "G" + std::string(8, '\0') + "e" + text("state_dict") +
                                   weights + "u.";
inline std::string safetensors() {
  std::string header = R"({"__metadata__":{"k":"v"},"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                       R"("v":{"dtype":"U8","shape":[3,1],"data_offsets":[8,11]}})";
  return pt_bytes::le(header.size()) + header + std::string(11, 'x');
}

inline std::string packed(std::string_view plain) {
  z_stream stream{};
  if (deflateInit2(&stream, 9, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) std::abort();
  std::string bytes(plain.size() + 1000, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(plain.data()));
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_out = static_cast<uInt>(bytes.size());
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) std::abort();
  bytes.resize(bytes.size() - stream.avail_out);
  deflateEnd(&stream);
  return bytes;
}
/// Two images of 2 x 3.
inline std::string idx() {
  std::string bytes("\0\0\x08\x03", 4);
  for (char const length : {'\2', '\2', '\3'}) (bytes += std::string(3, '\0')) += length;
  return bytes + "abcdefghijkl";
}
inline std::string digits_csv() {
  std::string line;
  for (int i = 0; i != 64; ++i) line += std::to_string(i % 17) + ",";
  return line + "7\n" + line + "0\n";
}

}  // namespace seed

inline std::vector<Target> targets() {
  return {{"pickle", pickle, seed::pickled},
          {"pt_pickle", pt_pickle, seed::pickled},
          {"pt", pt, pt_bytes::zip_of({{"m/data.pkl", seed::pickled}, {"m/data/0", std::string(24, 'x')}})},
          {"safetensors", safetensors, seed::safetensors()},
          {"state_text", state_text,
           R"({"a":[1,-2.5,"x\u00e4",null,true],"b":{"$bits":"7ff8000000000000"},"c":{"d":{"$bytes":"00ff"}},)"
           R"("t":{"$tensor":{"dtype":"U8","shape":[2],"bytes":"0001"}}})"},
          {"idx", idx, seed::idx()},
          {"gzip", gzip, seed::packed(seed::idx()) + seed::packed("another member")},
          {"digits_csv", digits_csv, seed::digits_csv()},
          {"table", table, "\xEF\xBB\xBFname,\"a \"\"b\"\"\",c\r\nx,\"1\n2\",\n,0.5,y\n"},
          {"netpbm", netpbm, "P6 # a remark\n2 1\n255\nabcdef"},
          {"event_scalars", event_scalars, "\x10\5*\n\n\x8\n\1a\x15" + std::string("\0\0\x80?", 4)},
          {"csv_table", csv_table, "epoch,\"a \"\"name\"\", \nin two\",step\r\n0,,1\n1,0.5,2\n"},
          {"file_name", file_name, "best/{epoch:02d}-{val/loss:.2f}_{step}{x:010.3e}"},
          {"slurm_environment", slurm_environment, "4711\ntrain\n4700\n3"},
          {"launcher_environment", launcher_environment,
           "SLURM_STEP_ID=0\nSLURM_PROCID=3\nSLURM_LOCALID=1\nSLURM_NTASKS=4\nSLURM_NNODES=2\nSLURM_JOB_ID=4711\n"
           "SLURM_NODELIST=gpu[03-07,9],cpu1"}};
}

}  // namespace fuzz
