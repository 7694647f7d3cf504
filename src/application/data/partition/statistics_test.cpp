#include "application/data/partition/statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "application/data/dataset_builder.h"
#include "application/data/partition/dataset_population.h"
#include "application/data/partition/figures.h"
#include "application/data/partition/label_dirichlet.h"
#include "application/data/partition/natural.h"
#include "application/data/partition/pseudo_labels.h"
#include "application/data/partition/report.h"
#include "application/data/partition/svg.h"
#include "application/data/partition/test_population.h"
#include "core/base/error.h"

namespace chorus::inline partition {
namespace {

using testing::HasSubstr;
using testing::Not;

std::vector<std::size_t> counts(std::initializer_list<std::size_t> values) { return values; }

TEST(JensenShannon, EqualsClosedForms) {
  EXPECT_NEAR(js_divergence(counts({3, 5}), counts({6, 10})), 0, 1e-12);
  EXPECT_NEAR(js_divergence(counts({4, 0}), counts({0, 9})), 1, 1e-12);
  // p = (1, 0), q = (1/2, 1/2): m = (3/4, 1/4); half of log2(4/3), and half of (log2(2/3) + 1) / 2.
  EXPECT_NEAR(js_divergence(counts({2, 0}), counts({1, 1})),
              0.5 * std::log2(4.0 / 3) + 0.5 * (0.5 * std::log2(2.0 / 3) + 0.5 * std::log2(2.0)), 1e-12);
  EXPECT_EQ(js_divergence(counts({0, 0}), counts({0, 0})), 0);
  EXPECT_EQ(js_divergence(counts({0, 0}), counts({1, 0})), 1);
}

TEST(EffectiveLabels, CountsEquallyFrequentLabels) {
  EXPECT_NEAR(effective_labels(counts({5, 5, 5, 5})), 4, 1e-12);
  EXPECT_NEAR(effective_labels(counts({7, 0, 0})), 1, 1e-12);
  EXPECT_NEAR(effective_labels(counts({3, 1})), std::exp(0.75 * std::log(4.0 / 3) + 0.25 * std::log(4.0)), 1e-12);
  EXPECT_EQ(effective_labels(counts({0, 0})), 0);
}

TEST(Sizes, SummariseLikeNumpy) {
  ClientLists lists;
  std::vector<ExampleId> ids(10);
  for (const std::size_t size : {4, 0, 1, 3, 2}) lists.append(std::span(ids).first(size));
  const SizeSummary summary = summarise_sizes(lists);
  EXPECT_EQ(summary.mean, 2);
  EXPECT_NEAR(summary.deviation, std::sqrt(2.0), 1e-12);
  EXPECT_EQ(summary.empty, 1u);
  EXPECT_NEAR(summary.quantiles[0], 0.2, 1e-12);  // numpy.quantile([0,1,2,3,4], 0.05)
  EXPECT_NEAR(summary.quantiles[2], 2, 1e-12);
  EXPECT_NEAR(summary.gini, 0.4, 1e-12);
}

TEST(Vocabulary, OverlapOfKnownTexts) {
  const std::vector<std::string> texts{"a b c", "b c d", "x"};
  ClientLists lists;
  for (const ExampleId id : {0U, 1U, 2U}) lists.append(std::vector<ExampleId>{id});
  const VocabularyOverlap overlap = vocabulary_overlap(
      lists, [&](std::size_t i, std::string&) { return std::string_view(texts[i]); }, 10);
  EXPECT_NEAR(overlap.mean_words, 7.0 / 3, 1e-12);
  EXPECT_NEAR(overlap.mean_jaccard, 0.5 / 3, 1e-12);  // {b, c} of {a, b, c, d}, and nothing with x
  EXPECT_NEAR(overlap.highest_jaccard, 0.5, 1e-12);
  EXPECT_EQ(overlap.lowest_jaccard, 0);
  EXPECT_NEAR(overlap.mean_share, (2.0 / 3 + 2.0 / 3 + 0) / 3, 1e-12);
}

TEST(PseudoLabel, FollowsFedNlp) {
  using Tags = std::vector<std::string_view>;
  EXPECT_EQ(pseudo_label(Tags{"O", "B-PERSON", "I-PERSON", "B-DATE", "B-GPE"}), "GPE-PERSON");
  EXPECT_EQ(pseudo_label(Tags{"O", "O"}), "NULL");
  EXPECT_EQ(pseudo_label(Tags{}), "NULL");
  EXPECT_EQ(pseudo_label(Tags{"B-CARDINAL", "B-WORK_OF_ART", "I-WORK_OF_ART"}), "NULL");
  EXPECT_EQ(pseudo_label(Tags{"B-creative-work", "B-person"}), "creative-work-person");
}

TEST(DatasetPopulation, TakesLabelsTagsOrSources) {
  DatasetBuilder tagging({.formulation = Formulation::kSequenceTagging});
  Record record;
  record.words = {"Ada", "met", "Bob"};
  record.tags = {"B-person", "O", "B-person"};
  tagging.add(record, Split::kTrain);
  record.words = {"nothing", "here"};
  record.tags = {"O", "O"};
  tagging.add(record, Split::kTest);
  const Dataset tagged = std::move(tagging).finish();
  const DatasetPopulation sentences(tagged, 1);
  ASSERT_EQ(sentences.view().labels.ids.size(), 2u);
  EXPECT_EQ(sentences.view().labels.names[0], "person");
  EXPECT_EQ(sentences.view().labels.names[1], "NULL");
  std::string scratch;
  EXPECT_EQ(feature_text(tagged)(0, scratch), "Ada met Bob");

  DatasetBuilder classes({.formulation = Formulation::kTextClassification});
  for (int i = 0; i < 30; ++i) {
    Record text;
    text.text = "text number " + std::to_string(i);
    text.label = i % 3 == 0 ? "sport" : "law";
    text.client = "user" + std::to_string(i % 4);
    classes.add(text, i % 5 == 4 ? Split::kTest : i % 5 == 3 ? Split::kValidation : Split::kTrain);
  }
  const Dataset data = std::move(classes).finish();
  const DatasetPopulation population(data, 1);
  EXPECT_EQ(population.view().train.size(), 18u);
  EXPECT_EQ(population.view().test.size(), 6u);
  const Partition partition = Natural({}).make(population.view(), {});
  EXPECT_EQ(partition.client_names[0], "user0");
  const PartitionReport report =
      report_on(partition, {.population = &population.view(), .text = population.full_text()});
  EXPECT_TRUE(report.coverage->exact());  // the validation split is not dealt out
  EXPECT_GT(report.vocabulary->mean_words, 3);
}

TEST(Report, PicturesAndJsonAgree) {
  const TestPopulation population(2000, 300, 6);
  const Partition partition = LabelDirichlet({.alpha = 0.2}).make(population.view, {.clients = 40, .seed = 3});
  const PartitionReport report = report_on(partition, {.population = &population.view});
  const auto json = nlohmann::json::parse(report_json(report));
  EXPECT_EQ(json["clients"], 40);
  EXPECT_EQ(json["train"]["examples"], 2000);
  EXPECT_EQ(json["coverage"]["missing"], 0);
  EXPECT_EQ(json["jensen_shannon"]["divergence"].size(), 40u);
  EXPECT_EQ(json["train_label_histograms"].size(), 40u);
  EXPECT_DOUBLE_EQ(json["jensen_shannon"]["mean_divergence"], report.js->mean_divergence);
  const std::string picture = report_picture(report, {.width = 100, .rows = 10, .colour = false});
  EXPECT_THAT(picture, HasSubstr("niid_label_clients=40_alpha=0.2: 40 clients"));
  EXPECT_THAT(picture, HasSubstr("every example of the data belongs to exactly one client"));
  EXPECT_THAT(picture, HasSubstr("10 of 40 clients"));
  EXPECT_THAT(picture, Not(HasSubstr("\x1b[")));
  EXPECT_THAT(report_picture(report, {.width = 100, .rows = 10, .colour = true}), HasSubstr("\x1b["));
}

TEST(Report, OfNothingAtAll) {
  const Partition nobody;
  EXPECT_THAT(report_picture(report_on(nobody, {}), {}), HasSubstr("0 clients"));
  Partition empty;
  for (int i = 0; i < 3; ++i) {
    empty.train.append({});
    empty.test.append({});
  }
  const TestPopulation population(0, 0, 3);
  EXPECT_THAT(report_picture(report_on(empty, {.population = &population.view}), {.width = 20}),
              HasSubstr("train  no examples"));
}

/// Every element is closed, and nothing external is referenced.
void expect_whole_svg(const std::string& svg) {
  EXPECT_TRUE(svg.starts_with("<svg xmlns="));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_THAT(svg, Not(HasSubstr("href")));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf\"")));
}

TEST(Figures, StandAloneAndEscaped) {
  TestPopulation population(3000, 300, 5);
  population.label_names[0] = "<b>&\"quoted\"";
  const Partition skewed = LabelDirichlet({.alpha = 0.1}).make(population.view, {.clients = 50, .seed = 3});
  const Partition flat = LabelDirichlet({.alpha = 100}).make(population.view, {.clients = 50, .seed = 3});
  EXPECT_EQ(panel_title(skewed), "α = 0.1");
  const std::vector<FigurePanel> panels{{panel_title(skewed), &skewed}, {panel_title(flat), &flat}};
  for (const std::string& svg :
       {js_figure(panels, population.view.labels), label_mix_figure(panels, population.view.labels),
        label_count_figure(panels, population.view.labels), size_figure(panels)}) {
    expect_whole_svg(svg);
    EXPECT_THAT(svg, HasSubstr("α = 100"));
    EXPECT_THAT(svg, Not(HasSubstr("<b>")));
  }
  EXPECT_THAT(label_mix_figure(panels, population.view.labels), HasSubstr("&lt;b&gt;&amp;&quot;quoted&quot;"));
  const Partition nobody;
  expect_whole_svg(size_figure(std::vector<FigurePanel>{{"nobody", &nobody}}));
  expect_whole_svg(js_figure(std::vector<FigurePanel>{{"nobody", &nobody}}, population.view.labels));
}

TEST(Figures, HaveRoundTicksWholeTitlesAndTheRightWord) {
  TestPopulation population(3000, 300, 5);
  for (std::string& name : population.label_names) name = "x";
  const Partition many = LabelDirichlet({.alpha = 1}).make(population.view, {.clients = 257, .seed = 3});
  const std::vector<FigurePanel> panels{{"many", &many}};
  const std::string svg = js_figure(panels, population.view.labels);
  const auto width = std::stod(svg.substr(svg.find("width=\"") + 7));
  EXPECT_GE(width, 9.5 * 62) << "the title fits";
  for (const char* tick : {">0<", ">100<", ">200<"}) EXPECT_NE(svg.find(tick), std::string::npos) << tick;
  EXPECT_NE(svg.find("clients' label distributions"), std::string::npos);
  Factor sources = population.view.labels;
  sources.what = "source";
  for (const std::string& other :
       {js_figure(panels, sources), label_mix_figure(panels, sources), label_count_figure(panels, sources)}) {
    EXPECT_NE(other.find("source"), std::string::npos);
    EXPECT_EQ(other.find("label"), std::string::npos);
  }
}

TEST(Svg, TicksAreRound) {
  EXPECT_THAT(round_ticks(100, 5), testing::ElementsAre(0, 20, 40, 60, 80, 100));
  EXPECT_THAT(round_ticks(0, 5), testing::ElementsAre(0));
  EXPECT_EQ(heat_colour(0), "#fffff5");
  EXPECT_EQ(heat_colour(1), "#0a1848");
  EXPECT_EQ(heat_colour(7), heat_colour(1));
}

}  // namespace
}  // namespace chorus::inline partition
