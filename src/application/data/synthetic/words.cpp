#include "application/data/synthetic/words.h"

#include <array>

namespace chorus::inline synthetic {

Words cut(std::string_view table, char separator) {
  Words words;
  while (true) {
    const std::size_t end = table.find(separator);
    words.push_back(table.substr(0, end));
    if (end == std::string_view::npos) return words;
    table.remove_prefix(end + 1);
  }
}

std::string_view pick(RandomStream& stream, const Words& words) { return words[stream.below(words.size())]; }

std::string_view pick_zipf(RandomStream& stream, const Words& words) {
  // The smaller of two uniform ranks, half of the time: cheaper than a power law and skewed enough for short lists.
  std::uint64_t rank = stream.below(words.size());
  if (stream.next_u32() & 1U) rank = std::min(rank, stream.below(words.size()));
  return words[rank];
}

const Common& common() {
  static const Common words{
      .agents = cut("man,woman,friend,stranger,boy,girl,neighbour,lady,gentleman,old man,young woman,boss,child,guest,"
                    "crowd,expert,fellow,group,visitor,owner,leader,worker"),
      .things = cut("story,question,idea,plan,letter,picture,box,place,problem,answer,work,report,room,name,list,"
                    "paper,card,chance,day,reason,detail,change,word,piece,matter,price,table,message"),
      .verbs = cut("liked,found,wanted,needed,remembered,described,explained,noticed,mentioned,expected,used,changed,"
                   "brought,left,kept,moved,loved,hated,enjoyed,missed"),
      .adjectives = cut("good,bad,great,new,strange,old,nice,small,big,terrible,wonderful,important,simple,awful,"
                        "interesting,excellent,poor,perfect,lovely,usual,ordinary,beautiful"),
      .places = cut("in the street,at work,near the river,outside,in town,in the corner,at the meeting,upstairs,"
                    "in the village,by the door,on the way home,in the city,across the road,in the office"),
      .times = cut("yesterday,last week,this morning,on Sunday,in the evening,last night,a year ago,today,last summer,"
                   "on Friday,at noon,two days ago,in June,last month,after dinner,on Monday,before Christmas"),
      .later = cut("tomorrow,tonight,on Sunday,next week,on Friday,after work,at noon,at the weekend,in the evening"),
      .intensifiers = cut("very,really,quite,rather,so,too,extremely,pretty"),
      .feelings =
          cut("happy,sad,angry,surprised,afraid,tired,proud,glad,sorry,bored,disappointed,excited,worried,sure"),
  };
  return words;
}

namespace {

struct SourceRow {
  const char* name;
  const char* openers;
  const char* closers;
  const char* subjects;
  bool formal;
};

constexpr std::array kSources{
    SourceRow{"hospital", "between two shifts;on the ward;after the night shift;as noted earlier",
              "back to the ward now.;please keep this with the notes.;the night nurse has been told.",
              "our nurses;the ward;we", true},
    SourceRow{"bank", "dear customer;as agreed;with reference to your letter;over lunch at the branch",
              "yours faithfully.;please contact the branch with any questions.;the account remains open.",
              "our branch;the bank;we", true},
    SourceRow{"newspaper", "according to our reporter;sources say;in other news;as we reported",
              "more on page two.;our reporter was there.;the story continues.", "our readers;the paper;we", true},
    SourceRow{"forum", "hi all;ok so;honestly;not sure if this was asked before",
              "any thoughts?;thanks in advance.;just my two cents.;anyone else?", "my friends;everybody here;i", false},
    SourceRow{"police", "at about nine;during the patrol;the caller said that;on arrival",
              "no further action.;the report was filed.;the area was quiet after that.", "two officers;the patrol;we",
              true},
    SourceRow{"school", "in class today;my teacher says;for my project;dear parents",
              "please sign below.;see you on Monday.;that is what I learned.", "the pupils;our class;we", false},
    SourceRow{"shop", "good morning;special offer;as a regular customer;in the shop today",
              "would buy again.;five stars from me.;not worth the money.", "the shop;our customers;i", false},
    SourceRow{"court", "the court heard that;in the first place;my learned friend says;it is agreed that",
              "the hearing was adjourned.;so ordered.;the point is noted.", "the parties;the court;we", true},
    SourceRow{"letters", "my dear friend;you will be glad to hear that;as you know;since your last visit",
              "write soon.;with love to all of you.;God bless you.", "the children;all of us;i", false},
    SourceRow{"radio", "good evening;on the line now;coming up next;you heard it here first",
              "stay with us.;call us now.;and now the weather.", "our listeners;the team;we", false},
};

}  // namespace

const std::vector<Source>& sources() {
  static const std::vector<Source> all = [] {
    std::vector<Source> parsed;
    for (const SourceRow& row : kSources) {
      parsed.push_back({row.name, cut(row.openers, ';'), cut(row.closers, ';'), cut(row.subjects, ';'), row.formal});
    }
    return parsed;
  }();
  return all;
}

const Names& names() {
  static const Names words{
      .men = cut("John,Peter,James,Robert,George,Henry,Thomas,Richard,Charles,Arthur,David,Paul,Michael,Frank,Harry,"
                 "William,Stephen,Albert,Edward,Walter,Martin,Daniel,Patrick,Andrew,Oliver,Simon,Eric,Hugh,Jos\u00e9,"
                 "Andr\u00e9,Philip,Ernest,Joseph,Adam,Felix,Larry,Brian,Kevin,Dennis,Carl"),
      .women = cut("Mary,Anne,Alice,Jane,Susan,Emma,Lucy,Ruth,Helen,Martha,Sarah,Julia,Rachel,Diana,Catherine,Annie,"
                   "Ellen,Maria,Linda,Betty,Dorothy,Harriet,Cynthia,Judith,Anna,Joan,Amy,Kate,Marie,Elizabeth,"
                   "Zo\u00eb,Ren\u00e9e,Sophia,Fanny,Polly,Molly,Julie,Jennifer,Gloria,Shirley"),
      .surnames = cut("Smith,Jones,Taylor,Wilson,Moore,Anderson,Harris,Miller,Roberts,Adams,Parker,Turner,Murphy,"
                      "Johnson,Williams,Davis,Holmes,Watson,Baker,Cook,Mason,Archer,Shepherd,Stone,Wood,Rivers,Hill,"
                      "Field,Bell,Brooks,Fox,Wolf,King,Bishop,Knight,Page,Rose,May,Winter,Summers,Young,Strong,Brown,"
                      "White,Green,Gray,Black,Little,Long,Price"),
      .towns = cut("London,Paris,Rome,Chicago,Dublin,Boston,Berlin,Vienna,Cambridge,Oxford,Newport,Greenwich,Ashford,"
                   "Redhill,Whitechurch,Kingston,Bridgewater,Oakfield,Northwood,Westbridge,Riverside,Millbrook,"
                   "Fairfield,Stonehill,Blackwater,Springfield,Eastport,Longwood,Silverton,Goldenhill"),
      .countries = cut("England,France,Italy,Spain,Germany,Russia,China,Japan,India,Canada,Mexico,Egypt,Ireland,"
                       "Australia,Brazil,Turkey"),
      .streets = cut("Street,Road,Lane,Square,Bridge,Park,Hill,Court"),
      .either = cut("Washington,Lincoln,Jackson,Georgia,Florence,Victoria,Chelsea,Madison,Morgan,Carter,Howard,Ford,"
                    "Douglas,Wayne,Sydney,Austin,Houston,Hamilton,Wellington,Nelson,Warwick,Stafford,Lancaster,York,"
                    "Windsor,Bradford,Preston,Clinton,Stanley,Melbourne,Durham,Russell,Gordon,Kennedy,Campbell,Logan"),
      .firm_heads = cut("Northern,Western,Eastern,Southern,Royal,United,National,First,Golden,Silver,Modern,Central,"
                        "Atlantic,Universal,Federal,General"),
      .firm_tails = cut("Bank,Company,Railway,Press,Steel,Films,Radio,Oil,Motors,Insurance,Airways,Mills"),
      .public_bodies = cut("University,Hospital,Council,Police,Museum,Theatre,School,Church,Rangers,United"),
      .product_adjectives = cut("Silver,Golden,Blue,Red,Silent,Magic,Happy,Little,Royal,Dark,Bright,Rapid"),
      .product_nouns = cut("Arrow,Fox,Star,Moon,Wolf,Rose,Bird,Storm,Dream,River,Shadow,Bell"),
      .product_kinds = cut("phone,car,camera,radio,watch,game,soap,coffee,bicycle,lamp,piano,tent"),
      .objects = cut("phone,car,camera,radio,watch,bicycle,lamp,piano,tent,clock,boat,mirror,table,ring,carpet,cart"),
      .object_adjectives = cut("old,new,small,big,red,green,broken,wooden,silver,strange,beautiful,cheap,heavy,black"),
      .months = cut("January,February,March,April,May,June,July,August,September,October,November,December"),
      .weekdays = cut("Monday,Tuesday,Wednesday,Thursday,Friday,Saturday,Sunday"),
      .titles = cut("Mr.,Mrs.,Dr.,Captain,Professor,Judge,Lady,Colonel,Inspector,Sir"),
      .jobs = cut("doctor,teacher,painter,writer,lawyer,farmer,pilot,nurse,singer,banker,baker,driver,actor,judge,"
                  "engineer,sailor"),
  };
  return words;
}

}  // namespace chorus::inline synthetic
