#include <fmt/format.h>

#include <array>

#include "application/data/synthetic/grammar.h"
#include "application/data/synthetic/world.h"

namespace chorus::inline synthetic {
namespace {

/// The consequence of an event, as worded in the report and in the headline.
struct Outcome {
  std::string_view told, short_form;
};

/// One kind of news. Slots: {town}, {firm}, {name} (full in the report, the family name in headlines), {job}, {n} (in
/// words in the report, in digits in headlines), {building}, {day}, {thing}, {rival} (a second town).
struct News {
  std::array<std::string_view, 3> lead;
  std::array<std::string_view, 2> detail;
  std::array<std::string_view, 2> headline;
  std::array<Outcome, 3> outcomes;
};

constexpr std::array<News, 14> kNews{{
    {{"a fire destroyed the {building} in {town} on {day}", "the {building} of {town} burned down on {day}",
      "on {day} flames swept through the {building} in {town}"},
     {"the smoke could be seen from {rival}", "it took {n2} hours to put out the flames"},
     {"fire destroys {town} {building}", "{town} {building} burns down"},
     {{{"{n} people were taken to hospital", "{n} hurt"},
       {"nobody was inside at the time", "no one hurt"},
       {"{n} families have lost their homes", "{n} families homeless"}}}},
    {{"after days of rain the river rose and flooded {town} on {day}", "water covered the streets of {town} on {day}",
      "on {day} a flood reached the centre of {town}"},
     {"boats were used to reach the {building}", "the road to {rival} is closed"},
     {"flood hits {town}", "{town} under water"},
     {{{"{n} people had to leave their houses", "{n} leave homes"},
       {"{n} people are missing", "{n} missing"},
       {"the water fell again during the night", "water falling"}}}},
    {{"two men robbed the {firm} in {town} on {day}", "on {day} thieves broke into the {firm} office in {town}",
      "masked men with guns entered the {firm} in {town} on {day}"},
     {"they left in a stolen car in the direction of {rival}", "a {job} saw them run past the {building}"},
     {"thieves rob {firm} in {town}", "robbery at {firm}"},
     {{{"they took {n} thousand pounds", "{n} thousand stolen"},
       {"the police arrested {n} men in the evening", "{n} arrested"},
       {"the police have no clue", "police have no clue"}}}},
    {{"the voters of {town} elected {name} on {day}", "{name}, a former {job}, won the election in {town} on {day}",
      "on {day} {name} became the new mayor of {town}"},
     {"the result was read out in front of the {building}", "the campaign lasted {n2} weeks"},
     {"{name} wins {town} election", "{town} elects {name}"},
     {{{"the lead was only {n} votes", "lead of {n} votes"},
       {"the other side does not accept the result", "result disputed"},
       {"the new mayor promised to lower taxes", "lower taxes promised"}}}},
    {{"the workers of {firm} in {town} stopped work on {day}", "on {day} a strike began at the {firm} in {town}",
      "nobody went to work at {firm} in {town} on {day}"},
     {"they want better wages", "a {job} said that the talks had failed"},
     {"{firm} workers on strike", "strike at {firm} in {town}"},
     {{{"{n} hundred workers took part", "{n} hundred walk out"},
       {"the company offered {n} per cent more", "{n} per cent offered"},
       {"the company refused to talk", "firm refuses talks"}}}},
    {{"{town} beat {rival} on {day}", "on {day} {rival} lost at home to {town}",
      "{town} won the match against {rival} on {day}"},
     {"it rained during the whole game", "{n2} thousand people watched the match"},
     {"{town} beat {rival}", "{rival} lose to {town}"},
     {{{"{name} scored {n} goals", "{n} goals for {name}"},
       {"{name} was hurt in the first half", "{name} injured"},
       {"{town} are now first in the league", "top of league"}}}},
    {{"a storm passed over {town} on {day}", "on {day} a heavy storm reached {town}",
      "strong winds hit {town} on {day}"},
     {"trees fell on the road to {rival}", "the roof of the {building} was blown away"},
     {"storm hits {town}", "heavy winds in {town}"},
     {{{"{n} houses were damaged", "{n} houses damaged"},
       {"there was no light in the town for {n} hours", "no power for {n} hours"},
       {"the schools will stay closed", "schools closed"}}}},
    {{"{firm} will open a new {building} in {town}", "a new {building} will be built in {town}, {firm} said on {day}",
      "on {day} {firm} showed the plans for a {building} in {town}"},
     {"the {job} {name} will lead the work", "{rival} had hoped to get it"},
     {"{firm} to build {town} {building}", "new {building} for {town}"},
     {{{"it will bring {n} hundred jobs", "{n} hundred jobs"},
       {"it will cost {n} million pounds", "cost: {n} million"},
       {"the neighbours are against it", "neighbours protest"}}}},
    {{"the court in {town} heard the case of the {job} {name} on {day}",
      "on {day} {name} stood before the judge in {town}", "{name}, a {job} from {rival}, was tried in {town} on {day}"},
     {"a witness had seen the {job} near the {building}", "the trial took {n2} days"},
     {"{town} court hears {name}", "{job} {name} in court"},
     {{{"the sentence was {n} years in prison", "{n} years in prison"},
       {"the jury did not believe the witness", "walks free"},
       {"the case goes on next week", "case goes on"}}}},
    {{"a train from {rival} hit a car near {town} on {day}", "on {day} a train left the track outside {town}",
      "there was an accident on the line between {town} and {rival} on {day}"},
     {"the driver, {name}, had not seen the signal", "the passengers waited in the {building}"},
     {"train accident near {town}", "accident on {town} line"},
     {{{"{n} passengers were wounded", "{n} wounded"},
       {"the line was closed for {n} hours", "line closed for {n} hours"},
       {"nobody was hurt", "no one hurt"}}}},
    {{"{name}, a {job} at {firm}, found an old {thing} in {town}",
      "on {day} an old {thing} was found in {town} by the {job} {name}",
      "under the {building} of {town} the {job} {name} discovered a {thing}"},
     {"experts from {rival} came to look at it", "it had been there for {n2} hundred years"},
     {"{job} finds old {thing} in {town}", "old {thing} found in {town}"},
     {{{"it may be worth {n} thousand pounds", "worth {n} thousand"},
       {"the museum wants to have it", "museum wants it"},
       {"it was stolen the same night", "stolen again"}}}},
    {{"{firm} bought the {rival} Company on {day}", "on {day} {firm} said that it now owns the {rival} Company",
      "the {rival} Company was sold to {firm} on {day}"},
     {"{name} will stay as manager", "both have their offices in {town}"},
     {"{firm} buys {rival} Company", "{rival} Company sold to {firm}"},
     {{{"the price was {n} million pounds", "price: {n} million"},
       {"{n} hundred jobs will be lost", "{n} hundred jobs lost"},
       {"shares rose by {n} per cent", "shares up {n} per cent"}}}},
    {{"many people in {town} fell ill on {day}", "on {day} a fever broke out in {town}",
      "doctors in {town} reported a strange illness on {day}"},
     {"the {job} {name} was the first to call for help", "the hospital of {rival} sent {n2} nurses"},
     {"illness in {town}", "{town} falls ill"},
     {{{"{n} children are in hospital", "{n} children in hospital"},
       {"bad water was the cause", "bad water blamed"},
       {"{n} people have died", "{n} dead"}}}},
    {{"the {job} {name} showed a new book in {town} on {day}", "{name} read from a new book in {town} on {day}",
      "on {day} the new novel of {name} was shown in the {building} of {town}"},
     {"{firm} printed it", "it took {n2} years to write"},
     {"{name} shows new book in {town}", "new book by {name}"},
     {{{"it sold {n} thousand copies", "{n} thousand sold"},
       {"the critics did not like it", "critics not amused"},
       {"a film will follow", "film to follow"}}}},
}};

constexpr std::array<std::string_view, 6> kQuotes{
    "\"it was a day to remember,\" said {name2}, a {job2}",  "\"we did not expect this,\" a {job2} said",
    "{name2}, who lives near by, had seen it coming",        "\"i have nothing to say,\" said the {job2} {name2}",
    "many people in the town are talking about little else", "{name2} thanked everybody who had helped",
};

constexpr std::array<std::string_view, 4> kNewsAsides{"in other news, ", "meanwhile, ", "elsewhere, ",
                                                      "as we reported, "};

constexpr std::string_view kBuildings =
    "school,theatre,church,station,hospital,hotel,market,library,mill,bridge,prison";
constexpr std::string_view kThings = "ship,sword,crown,letter,painting,coin,grave,map,clock,bell";

/// The facts of one event; the report and the headline are two views of it.
struct Facts {
  std::string_view town, rival, first, last, job, building, day, thing, second_last, second_job;
  std::string firm, full, second_full;
  std::uint64_t n = 0, n2 = 0;
  std::string n_words, n_digits, n2_words;

  Facts(const World& world, const Author& author, RandomStream& stream) {
    static const Words buildings = cut(kBuildings);
    static const Words things = cut(kThings);
    const auto place = [&] {
      return stream.next_u32() & 1U ? world.pick(names().towns, author, stream) : pick(stream, names().either);
    };
    town = place();
    do rival = place();
    while (rival == town);
    const auto someone = [&] { return pick(stream, stream.next_u32() & 1U ? names().men : names().women); };
    first = someone();
    last = world.pick(names().surnames, author, stream);
    job = world.pick(names().jobs, author, stream);
    second_job = pick(stream, names().jobs);
    building = pick(stream, buildings);
    thing = pick(stream, things);
    day = pick(stream, names().weekdays);
    firm = fmt::format("{} {}", pick(stream, names().firm_heads), pick(stream, names().firm_tails));
    full = fmt::format("{} {}", first, last);
    second_full = fmt::format("{} {}", someone(), pick(stream, names().surnames));
    n = 2 + stream.below(18);
    n2 = 2 + stream.below(18);
    n_words = number_words(n);
    n_digits = std::to_string(n);
    n2_words = number_words(n2);
  }

  std::string_view value(std::string_view slot, bool headline) const {
    if (slot == "town") return town;
    if (slot == "rival") return rival;
    if (slot == "name") return headline ? last : std::string_view(full);
    if (slot == "job") return job;
    if (slot == "firm") return firm;
    if (slot == "n") return headline ? n_digits : n_words;
    if (slot == "n2") return n2_words;
    if (slot == "building") return building;
    if (slot == "day") return day;
    if (slot == "thing") return thing;
    if (slot == "name2") return second_full;
    return second_job;
  }
};

void add_sentence(std::string_view before, std::string_view pattern, const Facts& facts, std::string& out) {
  if (!out.empty()) out += ' ';
  const std::size_t begin = out.size();
  out += before;
  expand(pattern, out, [&](std::string_view slot) { return facts.value(slot, false); });
  out += '.';
  // A sentence may open with a quotation mark.
  capitalise(out, out[begin] == '"' ? begin + 1 : begin);
}

}  // namespace

std::uint64_t headline_kinds() { return kNews.size(); }

void make_headline(const World& world, RandomStream& stream, Record& record) {
  const std::uint64_t kind = stream.below(kNews.size());
  const Author author = world.author(kind, stream, record);
  const News& news = kNews[kind];
  const Facts facts(world, author, stream);
  const Outcome& outcome = news.outcomes[stream.below(3)];
  const auto aside = [&] {
    const Facts other(world, author, stream);
    const std::uint64_t other_kind = stream.below(kNews.size());
    add_sentence(kNewsAsides[stream.below(kNewsAsides.size())], kNews[other_kind].lead[stream.below(3)], other,
                 record.text);
  };

  const double order = stream.uniform();
  if (order < 0.2 + 0.2 * world.config().overlap) aside();
  add_sentence("", news.lead[stream.below(3)], facts, record.text);
  const bool outcome_early = stream.next_u32() & 1U;
  if (outcome_early) add_sentence("", outcome.told, facts, record.text);
  if (stream.uniform() < 0.7) add_sentence("", news.detail[stream.below(2)], facts, record.text);
  if (!outcome_early) add_sentence("", outcome.told, facts, record.text);
  if (stream.uniform() < 0.6) add_sentence("", kQuotes[stream.below(kQuotes.size())], facts, record.text);
  if (order > 0.8) aside();

  // The house style: formal sources take the first form and a semicolon, the others the second and a dash.
  const bool formal =
      stream.uniform() < 0.5 * world.config().skew ? world.source(author).formal : (stream.next_u32() & 1U) != 0;
  const auto short_slot = [&](std::string_view slot) { return facts.value(slot, true); };
  expand(news.headline[formal ? 0 : 1], record.second, short_slot);
  record.second += formal ? "; " : " - ";
  expand(outcome.short_form, record.second, short_slot);
  capitalise(record.second);
}

}  // namespace chorus::inline synthetic
