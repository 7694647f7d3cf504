// Any file is refused in one sentence or is a dataset (tools/fuzz): servers send public files to their clients. The
// first byte chooses the format, the second whether the file is compressed.
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "application/data/readers/format.h"
#include "application/data/readers/open_dataset.h"
#include "core/base/error.h"
#include "core/console/quiet_console.h"

namespace chorus::inline readers {
namespace {

/// A file in memory, with the given bytes.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : descriptor_(::memfd_create("fuzz", 0)) {
    if (descriptor_ < 0 || ::write(descriptor_, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
      std::abort();
    }
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { ::close(descriptor_); }
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

std::string compressed(std::string_view bytes) {
  z_stream stream{};
  if (deflateInit2(&stream, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) std::abort();
  std::string result(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(result.data());
  stream.avail_out = static_cast<uInt>(result.size());
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) std::abort();
  result.resize(stream.total_out);
  deflateEnd(&stream);
  return result;
}

}  // namespace
}  // namespace chorus::inline readers

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace chorus;
  static const QuietConsole kQuiet;
  if (size < 2) return 0;
  std::string bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  if (data[1] % 8 == 7) bytes = compressed(bytes);
  const MemoryFile file(bytes);
  DataConfig config;
  const std::size_t which = data[0] % (formats().size() + 1);
  if (which < formats().size()) config.format = formats()[which]->name;
  config.train = {file.path()};
  config.allow_new_labels = true;
  config.cache = "none";
  try {
    if (open_dataset(config).size() == 0) std::abort();
  } catch (const DataError&) {  // what the client's log says
  } catch (const ConfigError&) {
  }
  return 0;
}
