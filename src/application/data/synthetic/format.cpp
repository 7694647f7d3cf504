#include "application/data/readers/format.h"

#include "application/data/synthetic/synthetic.h"

namespace chorus::inline synthetic {
namespace {

// The "file" is a description of the corpus, so the format is never guessed.
int likelihood(const FileHead&) { return kNo; }

const FormatRegistration kRegistered{
    {"synthetic", "a corpus made from a seed; the path says which: formulation=seq2seq,examples=500,seed=7", likelihood,
     [](const std::filesystem::path& path, const ReaderOptions& options) {
       SyntheticConfig defaults;
       if (options.formulation) defaults.formulation = *options.formulation;
       return synthetic_corpus(parse_synthetic(path.string(), defaults));
     }}};

}  // namespace
}  // namespace chorus::inline synthetic
