// Any text is refused in one sentence or is a job that survives being written and read again, and any text is refused
// or is a list of digests (tools/fuzz).
#include <cstdint>
#include <cstdlib>

#include "apps/serving/job.h"
#include "core/base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace chorus;
  try {
    const Job job = parse_job({reinterpret_cast<const char*>(bytes), size});
    const std::string text = to_json(job);
    if (to_json(parse_job(text)) != text) std::abort();
    for (const JobFile& file : job.files) {
      if (file.name.find('/') != std::string::npos || file.name.front() == '.') std::abort();
    }
  } catch (const DataError&) {  // what the client's log says
  }
  try {
    for (const std::string& digest : parse_wanted({reinterpret_cast<const char*>(bytes), size}, 3)) {
      if (digest.size() != 32) std::abort();
    }
  } catch (const DataError&) {  // the server's log
  }
  return 0;
}
