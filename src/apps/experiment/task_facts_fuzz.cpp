// Any text is refused in one sentence or is a description of a task that survives being written and read again
// (tools/fuzz).
#include <cstdint>
#include <cstdlib>

#include "apps/experiment/task_facts.h"
#include "core/base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace chorus;
  try {
    const TaskFacts facts = parse_task_facts({reinterpret_cast<const char*>(bytes), size});
    if (!(parse_task_facts(to_json(facts)) == facts)) std::abort();
  } catch (const DataError&) {  // what the client's log says
  }
  return 0;
}
