#include <array>

#include "application/data/synthetic/words.h"

namespace chorus::inline synthetic {
namespace {

struct Row {
  const char* name;
  int group;
  const char* agents;
  const char* things;
  const char* verbs;
  const char* adjectives;
  const char* places;
};

constexpr std::array kRows{
    Row{"film", 0, "director,actor,actress,producer,critic,viewer,star,editor",
        "film,plot,script,scene,ending,camera,sequel,trailer,soundtrack,dialogue,remake,role,cast,budget",
        "filmed,watched,directed,edited,reviewed,released,rented,praised",
        "boring,predictable,romantic,brilliant,cheesy,visual,animated,overlong",
        "on the screen,at the cinema,in the studio,at the festival"},
    Row{"cooking", 1, "cook,baker,chef,waiter,guest,hostess,neighbour,butcher",
        "soup,bread,cake,sauce,kitchen,butter,dinner,cheese,recipe,fish,pie,salad,egg,oven",
        "cooked,baked,tasted,served,burned,ordered,mixed,warmed", "sweet,salt,fresh,delicious,burnt,bitter,hot,plain",
        "in the kitchen,at the table,in the oven,at the market"},
    Row{"sea", 2, "captain,sailor,pilot,fisherman,officer,passenger,mate,pirate",
        "ship,boat,harbour,sail,anchor,deck,wave,voyage,storm,island,rope,vessel,tide,mast",
        "sailed,anchored,boarded,steered,sighted,crossed,loaded,spotted",
        "rough,calm,deep,salty,sunken,foreign,wet,windy", "on the deck,off the coast,in the harbour,at sea"},
    Row{"politics", 3, "president,minister,senator,governor,voter,mayor,secretary,speaker",
        "election,vote,government,law,tax,party,policy,speech,reform,treaty,council,campaign,office,debate",
        "elected,proposed,opposed,supported,debated,signed,defended,announced",
        "political,public,national,liberal,honest,corrupt,foreign,federal",
        "in the parliament,in the capital,at the council,in the assembly"},
    Row{"banking", 4, "banker,clerk,customer,manager,investor,lender,owner,partner",
        "loan,account,debt,bank,interest,market,share,profit,payment,cheque,bond,fund,price,credit",
        "paid,borrowed,invested,counted,charged,lent,bought,sold", "rich,annual,poor,safe,costly,legal,monthly,cheap",
        "at the bank,on the market,at the counter,in the vault"},
    Row{"medicine", 5, "doctor,nurse,patient,surgeon,dentist,visitor,specialist,midwife",
        "disease,fever,wound,drug,operation,pain,medicine,blood,illness,treatment,heart,test,bandage,pill",
        "treated,examined,cured,tested,washed,measured,bandaged,relieved",
        "sick,painful,healthy,weak,deadly,severe,pale,mental", "in the hospital,on the ward,at the clinic,in bed"},
    Row{"football", 6, "player,coach,keeper,referee,fan,captain,striker,trainer",
        "match,goal,ball,team,game,score,league,season,cup,pass,defence,penalty,training,transfer",
        "scored,kicked,missed,saved,lost,won,trained,blocked", "fast,late,lucky,tired,strong,beaten,young,brave",
        "on the pitch,in the stadium,at home,in the second half"},
    Row{"music", 0, "singer,drummer,band,pianist,composer,player,dancer,listener",
        "song,album,concert,piano,guitar,tune,voice,opera,record,melody,drum,stage,chorus,audience",
        "played,recorded,performed,composed,practised,heard,rehearsed,repeated",
        "loud,musical,soft,catchy,live,sad,slow,classical", "on the stage,in the studio,at the concert,on the radio"},
    Row{"garden", 1, "gardener,neighbour,farmer,aunt,florist,visitor,grandfather,planter",
        "garden,flower,rose,tree,seed,grass,root,fruit,leaf,weed,hedge,soil,plant,fence",
        "planted,watered,cut,trimmed,picked,dug,raised,cleared", "green,dry,fresh,wild,dead,tall,yellow,muddy",
        "in the garden,under the tree,behind the shed,by the fence"},
    Row{"railway", 2, "driver,passenger,conductor,guard,engineer,traveller,inspector,porter",
        "train,station,ticket,engine,track,platform,bridge,carriage,signal,tunnel,line,timetable,seat,delay",
        "delayed,boarded,stopped,repaired,missed,booked,cancelled,passed",
        "late,crowded,fast,noisy,broken,empty,local,northern",
        "at the station,on the platform,on the line,in the carriage"},
    Row{"crime", 3, "detective,thief,murderer,sheriff,witness,killer,policeman,gangster",
        "crime,murder,gun,robbery,knife,body,clue,prison,gang,pistol,theft,alarm,suspect,victim",
        "arrested,murdered,robbed,chased,shot,caught,followed,searched",
        "violent,guilty,criminal,armed,bloody,dangerous,missing,secret",
        "at the scene,in prison,in a dark street,at the police station"},
    Row{"farm", 4, "farmer,shepherd,owner,labourer,neighbour,dealer,miller,rider",
        "farm,cow,sheep,wheat,field,horse,barn,corn,cattle,crop,milk,hay,pig,harvest",
        "raised,fed,sold,gathered,milked,ploughed,loaded,bought", "rural,muddy,fat,dry,hungry,rich,wild,early",
        "in the field,on the farm,in the barn,at the market"},
    Row{"space", 5, "scientist,astronaut,professor,pilot,engineer,observer,student,researcher",
        "planet,star,moon,rocket,orbit,sun,telescope,mission,galaxy,comet,signal,earth,universe,light",
        "launched,observed,measured,discovered,reached,tracked,photographed,calculated",
        "distant,bright,huge,dark,cold,invisible,solar,nuclear", "in space,in orbit,on the moon,at the observatory"},
    Row{"fashion", 6, "model,tailor,designer,customer,dealer,actress,buyer,dresser",
        "dress,shirt,coat,shoe,hat,skirt,silk,boot,collar,suit,jacket,ring,mirror,style",
        "fitted,sewed,dressed,designed,sold,bought,ironed,matched", "elegant,red,black,cheap,tight,fancy,blue,modern",
        "in the shop,in front of the mirror,on sale,at the show"},
    Row{"books", 0, "writer,author,reader,poet,publisher,editor,critic,librarian",
        "book,novel,chapter,story,page,poem,hero,volume,plot,ending,paper,library,sentence,character",
        "read,published,printed,finished,reviewed,edited,praised,borrowed",
        "boring,clever,tragic,brilliant,famous,long,romantic,tedious",
        "in the library,on the last page,in print,in the first chapter"},
    Row{"house", 1, "builder,painter,owner,landlord,neighbour,carpenter,tenant,worker",
        "house,roof,wall,door,window,floor,kitchen,stair,pipe,lock,key,rent,brick,fence",
        "built,painted,repaired,cleaned,rented,locked,measured,replaced",
        "old,wooden,broken,empty,cold,narrow,damp,comfortable", "in the kitchen,on the roof,next door,on the stairs"},
    Row{"mountain", 2, "climber,guide,traveller,hunter,walker,ranger,shepherd,explorer",
        "mountain,path,valley,snow,camp,rock,forest,river,tent,peak,cliff,trail,rope,storm",
        "climbed,crossed,reached,spotted,followed,carried,explored,marked",
        "steep,cold,wild,high,deep,distant,icy,lonely", "on the peak,in the valley,in the snow,at the camp"},
    Row{"court", 3, "judge,lawyer,witness,prisoner,jury,client,prosecutor,clerk",
        "trial,case,law,sentence,evidence,court,contract,crime,appeal,claim,proof,fine,verdict,statement",
        "judged,defended,accused,proved,signed,charged,questioned,denied",
        "guilty,legal,innocent,civil,false,severe,criminal,fair",
        "in court,before the jury,at the trial,in the witness box"},
    Row{"school", 4, "teacher,student,pupil,professor,parent,girl,boy,principal",
        "lesson,school,exam,class,grade,lecture,book,test,homework,desk,teacher,course,college,paper",
        "taught,studied,learned,passed,failed,marked,explained,finished",
        "difficult,bright,lazy,easy,clever,young,late,strict", "at school,in class,at college,in the exam"},
    Row{"animals", 5, "owner,keeper,hunter,trainer,vet,child,farmer,rider",
        "dog,cat,bird,horse,wolf,tiger,nest,cage,tail,bear,fish,mouse,lion,puppy",
        "fed,caught,trained,chased,rescued,washed,hunted,stroked", "wild,hungry,tame,cute,dangerous,lost,fat,savage",
        "in the cage,in the zoo,at the vet,in the forest"},
    Row{"war", 3, "soldier,general,colonel,sergeant,officer,enemy,captain,guard",
        "battle,army,gun,war,weapon,victory,attack,troop,bomb,camp,peace,march,order,defence",
        "attacked,defended,captured,bombed,fought,defeated,ordered,led",
        "brave,armed,military,bloody,foreign,wounded,tired,royal",
        "at the front,on the battlefield,in the camp,on the march"},
    Row{"computers", 5, "engineer,student,user,programmer,scientist,hacker,manager,expert",
        "computer,program,file,screen,network,code,machine,game,message,internet,system,error,phone,robot",
        "installed,copied,tested,typed,fixed,downloaded,deleted,designed",
        "slow,electronic,modern,broken,secure,technical,new,useless",
        "on the network,in the lab,on the screen,at the office"},
    Row{"religion", 6, "priest,bishop,monk,believer,preacher,nun,prophet,pilgrim",
        "church,prayer,soul,faith,temple,bible,god,angel,sermon,saint,sin,heaven,cross,devil",
        "honoured,blessed,preached,worshipped,taught,buried,visited,praised",
        "holy,divine,religious,ancient,eternal,faithful,solemn,sacred",
        "in church,at the temple,in the bible,before the cross"},
    Row{"family", 1, "mother,father,sister,brother,uncle,cousin,daughter,grandmother",
        "wedding,baby,birthday,family,marriage,child,home,gift,visit,letter,dinner,quarrel,party,kiss",
        "married,loved,visited,kissed,invited,missed,raised,called",
        "happy,dear,loving,tired,jealous,young,proud,noisy", "at home,at the wedding,at the party,in the family"},
};

}  // namespace

const std::vector<Topic>& topics() {
  static const std::vector<Topic> all = [] {
    std::vector<Topic> parsed;
    for (const Row& row : kRows) {
      parsed.push_back({row.name, row.group, cut(row.agents), cut(row.things), cut(row.verbs), cut(row.adjectives),
                        cut(row.places)});
    }
    return parsed;
  }();
  return all;
}

}  // namespace chorus::inline synthetic
