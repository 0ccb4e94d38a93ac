"""Words that say nothing about a text's subject, in the languages that most texts are written in."""

ENGLISH = """
a about above after again against ain all also am an and any anybody anyone anything are aren't as at be became
because been before being below between both but by came can can't cannot could couldn't did didn't do does
doesn't doing don't done down during each else ever every everyone everything few for from further get gets
getting give given go goes going gone gonna good got had hadn't has hasn't have haven't having he hello her here
hers herself hey hi him himself his how however i i'd i'll i'm i've if in into is isn't it it's its itself just
know let let's like ll made make makes many may maybe me might mine more most much must my myself need needs no
nor not nothing now of off oh ok okay on once one only or other our ours ourselves out over own please put re
really said same say says see seem seems she should shouldn't since so some somebody someone something still
such sure take tell than thank thanks that that's the their theirs them themselves then there there's these they
they're thing things think this those though through to too try trying under until up upon us use used using
very via wanna want wanted wants was wasn't way we we're well went were weren't what what's when where where's
whether which while who who's whom whose why will with within without won't would wouldn't ya yeah yes yet you
you'd you'll you're you've your yours yourself yourselves
"""
GERMAN = """
aber alle allem allen aller alles als also am an ander andere anderem anderen anderer anderes auch auf aus bei
beim bin bis bist bitte da damit danke dann das dass dein deine deinem deinen deiner dem den denn der des dich
die dies diese dieselbe diesem diesen dieser dieses dir doch dort du durch ein eine einem einen einer eines
einige einmal er es etwas euch euer eure für gegen geht gibt habe haben hallo hat hatte hatten hier hin hinter
ich ihm ihn ihnen ihr ihre ihrem ihren ihrer im in indem ins ist ja jede jedem jeden jeder jedes jene jetzt kann
kein keine keinem keinen keiner können könnte machen mal man manche mehr mein meine meinem meinen meiner mich
mir mit muss möchte müssen nach nein nicht nichts noch nun nur ob oder ohne schon sehr sein seine seinem seinen
seiner seit sich sie sind so solche soll sollte sondern sonst um und uns unser unsere unter viel vom von vor war
waren warum was weg weil weiter welche welcher wenn wer werde werden wie wieder will wir wird wirst wo wollen
wollte wurde würde würden zu zum zur zwar zwischen über
"""
FRENCH = """
a ai aie as au aurait aussi aux avais avait avant avec avez avoir avons bien bonjour c c'est car ce cela celle
ces cet cette ceux chaque chez comme comment d d'un d'une dans de depuis des dois doit donc dont du elle elles
en encore entre es est et eu eux faire fait fois il ils j j'ai je jusque l la le les leur leurs lors lui m ma
mais me merci mes moi moins mon même n ne ni nos notre nous on ont ou où par parce pas peu peut peux plus pour
pourquoi pouvez puis qu qu'est qu'il quand que quel quelle quelles quels qui quoi s sa sans se sera ses si sinon
soit son sont sous suis sur t ta te tes toi ton tous tout toute toutes très tu un une va vais vers veux voici
voilà vos votre voudrais vous y ça étais était été être
"""
SPANISH = """
a al algo alguna algunas alguno algunos ante antes aquí así aunque bien cada como con contra cual cuando cuál
cuándo cuánto cómo de del desde donde dos durante dónde e el ella ellas ellos en entre era eran es esa esas ese
eso esos estaba estado estar estas este esto estos estoy está están fue fueron gracias ha había hace hacer hacia
han hasta hay he hola la las le les lo los mas me mi mis mucho muy más mí nada ni no nos nosotros o os otra
otras otro otros para pero poco por porfavor porque puede puedo pues que quien quiero quién qué se sea ser si
sido siempre sin sobre sois solo somos son soy su sus sí sólo tal también tan tanto te tengo ti tiene tienen
todo todos tu tus tú un una unas uno unos usted ustedes va voy y ya yo él
"""
ITALIAN = """
a abbiamo ad agli ai al alla alle allo anche ancora avere aveva c che chi ci ciao come con contro cosa così cui
da dagli dai dal dalla dalle dallo degli dei del della delle dello dentro di dopo dove e ed era erano essere fa
fare fino fra già gli grazie ha hai hanno ho i il in io l la le lei li lo loro lui ma me mi mia mie miei mio
molto ne negli nei nel nella nelle nello no noi non nostra nostro o ogni oppure per perchè perché più poi posso
potrei prima può quale quali quando quanto quella quelle quelli quello questa queste questi questo qui se sei
sempre senza si sia siamo sono sta stato su sua sue sugli sui sul sulla sulle suo suoi sì te ti tra tu tua tue
tuo tuoi tutti tutto un una uno va vi voglio voi vorrei vostra vostro è
"""
PORTUGUESE = """
a ainda além ao aos aquela aquelas aquele aqueles aquilo as até com como da das de dela dele deles depois do dos
e ela elas ele eles em entre era essa essas esse esses esta estas estava este estes estou está estão eu faz
fazer foi foram há isso isto já lhe lhes lá mais mas me mesmo meu meus minha minhas muito na nas nem no nos
nossa nosso num numa não nós o obrigado oi olá onde os ou para pela pelas pelo pelos perante pode podem por
porque posso pra qual quando quanto que quem quero se seja sem sempre ser será seu seus si sim sobre sua suas
são só também te tem tenho ter teu teus ti tinha toda todas todo todos tu tua tuas tudo têm um uma umas uns vai
você vocês vou às é
"""
DUTCH = """
aan af al alles als altijd andere ben bij daar dan dank dat de deze die dit doch doen door dus een eens en er ga
gaan ge geen geweest haar had hallo heb hebben heeft hem het hier hij hoe hun iemand iets ik in is ja je jij
jouw jullie kan kon kunnen maar me meer men met mij mijn moet na naar niet niets nog nu of om omdat onder ons
ook op over reeds te tegen toch toen tot u uit uw van veel voor waar waarom want was wat we wel werd wezen wie
wij wil wilde worden zal ze zei zelf zich zij zijn zo zonder zou
"""
SCANDINAVIAN = """
af alla alle allt att av blev blir de dem den denna deras dess det detta dig din ditt du då efter ej eller en er
et ett fick fra från få får för förbi gå ha hade han hej hennes hon hur här i ikke in inte jag jeg kan kunde man
med meg mig min mitt mot mycket nej ni no noe när och också og om op oss over på sig sin sitt ska skal skulle
som så sådan til till under upp ut vad var vara vart vi vid vil vilken vill är
"""
POLISH = """
a aby albo ale ani bez bo by być była było były czy dla do gdy gdzie go i ich ile im ja jak jaka jakie jako jest
jestem jeszcze już każdy kiedy kto która które który lub ma mam mi mnie moja moje może można mój na nad nich nie
nim o od on ona ono pan po pod prosze proszę przez przy się swoje są ta tak także tam te tego tej ten teraz to
tu ty tylko tym u w we więc wszystko z za ze że żeby
"""
RUSSIAN = """
а без бы был была были было в вам вас во вот все всё вы где да для до его ее если есть ещё её же за здравствуйте
и из или их к как какая какой когда кто ли меня мне может можно мой моя мы на надо не нет ни но ну о об он она
они от по под пожалуйста почему при про с со спасибо так там то только тот ты у уже хочу чего чем что чтобы эта
эти это этот я
"""
TURKISH = """
acaba ama bana ben beni benim bir biri biz bu bunu da daha de değil diye en gibi hem hiç ile ise istiyorum için
kadar kez ki kim lütfen mi mu mü mı nasıl ne neden nerede niye o olan olarak oldu ona onu sen siz teşekkürler
var ve veya ya yok şey şu şunu
"""
ARABIC = """
أن أنا أو أي إذا إلى إن التي الذي الى ان او بعد بين ثم حتى حيث شكرا على عن عند في قبل قد كان كل كم كما كيف لا لم
لن لو ليس ما متى مع من منذ هذا هذه هل هو هي و يا يكون
"""
HINDI = """
इस उस एक एवं और का कि की कुछ कृपया के को कोई क्या क्यों गया जब जो तक तो था थी थे नहीं ने पर पास बहुत भी मुझे में
मेरा मेरी मेरे मैं यह या ये रहा रही रहे लिए वह वे सकता साथ से हम हूँ हूं है हैं हो होता
"""
STOP_WORDS = frozenset(
    " ".join(
        (
            ENGLISH,
            GERMAN,
            FRENCH,
            SPANISH,
            ITALIAN,
            PORTUGUESE,
            DUTCH,
            SCANDINAVIAN,
            POLISH,
            RUSSIAN,
            TURKISH,
            ARABIC,
            HINDI,
        )
    ).split()
)
