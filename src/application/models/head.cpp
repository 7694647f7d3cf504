#include "application/models/head.h"

namespace chorus::inline models {
namespace {

const HeadRegistration kHeadNone(head_traits::kNone);
const HeadRegistration kHeadSequence(head_traits::kSequenceClassification);
const HeadRegistration kHeadToken(head_traits::kTokenClassification);
const HeadRegistration kHeadQuestion(head_traits::kQuestionAnswering);
const HeadRegistration kHeadMasked(head_traits::kMaskedLm);
const HeadRegistration kHeadCausal(head_traits::kCausalLm);
const HeadRegistration kHeadSeq2Seq(head_traits::kSeq2Seq);

}  // namespace

std::vector<Head> all_heads() {
  std::vector<Head> heads;
  for (const std::string& name : Heads::names()) heads.push_back(*Heads::make(name));
  return heads;
}

Head head_named(const std::string& name) { return *Heads::make(name); }

}  // namespace chorus::inline models
