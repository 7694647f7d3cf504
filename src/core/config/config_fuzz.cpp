// Any text is refused with a ConfigError or fills a configuration that survives being written and read again
// (tools/fuzz): a server sends its configuration to its clients.
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <vector>

#include "core/base/error.h"
#include "core/config/config.h"
#include "core/config/registry.h"

namespace {

using namespace chorus;

class FuzzedShape {
 public:
  static constexpr std::string_view kKind = "fuzzed-shape";
  virtual ~FuzzedShape() = default;
};
using Shapes = Registry<FuzzedShape>;
struct CircleConfig {
  double radius = 1;
  void describe(ConfigVisitor& visitor) { visitor.field("radius", radius, "in metres").above(0); }
};
const Registration<Shapes, CircleConfig> kCircle{"circle", "round",
                                                 [](const CircleConfig&) { return std::make_unique<FuzzedShape>(); }};
const Registration<Shapes> kPoint{"point", "nothing at all", [] { return std::make_unique<FuzzedShape>(); }};

enum class Colour { kRed, kGreen };

struct Inner {
  std::int64_t depth = 3;
  std::string label = "none";
  void describe(ConfigVisitor& visitor) {
    visitor.field("depth", depth, "levels").at_least(1).at_most(12);
    visitor.field("label", label, "a name").not_empty();
  }
};

struct Everything {
  bool flag = false;
  std::int64_t count = 10;
  double rate = 1e-3;
  std::string text = "plain";
  Colour colour = Colour::kRed;
  std::optional<double> limit = {};
  std::vector<std::int64_t> sizes = {1, 2};
  std::vector<std::string> words = {};
  std::map<std::string, double> scores = {{"a", 0.1}};
  std::map<std::string, std::string> tags = {};
  Inner inner = {};
  std::optional<Inner> maybe = {};
  std::vector<Inner> layers = {};
  Choice<Shapes> shape{"circle"};
  std::vector<Choice<Shapes>> shapes = {};

  void describe(ConfigVisitor& visitor) {
    visitor.field("flag", flag, "a switch");
    visitor.field("count", count, "how many").at_least(1);
    visitor.field("rate", rate, "per step").above(0).below(1);
    visitor.field("text", text, "anything");
    visitor.field("colour", colour, {{"red", Colour::kRed}, {"green", Colour::kGreen}}, "its colour");
    visitor.field("limit", limit, "at most that");
    visitor.field("sizes", sizes, "sizes").at_least(0);
    visitor.field("words", words, "words");
    visitor.field("scores", scores, "scores");
    visitor.field("tags", tags, "tags");
    visitor.field("inner", inner, "inside");
    visitor.field("maybe", maybe, "inside, perhaps");
    visitor.field("layers", layers, "insides");
    visitor.field("shape", shape, "a form");
    visitor.field("shapes", shapes, "forms");
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  try {
    const auto document = ConfigDocument::parse({reinterpret_cast<const char*>(bytes), size}, "the server");
    (void)document.kind("");
    const std::string text = config_to_yaml(document.load<Everything>());
    if (config_to_yaml(ConfigDocument::parse(text, "again").load<Everything>()) != text) std::abort();
  } catch (const ConfigError&) {  // what the client's log says
  }
  return 0;
}
