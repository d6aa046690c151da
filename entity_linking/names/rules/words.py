"""Small word lists behind the name rules: general knowledge of English, fitted to no data."""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


STOP_WORDS = _words(
    """a about above after again against all also am an and another any are as at be because been
    before being below between both but by can cannot could did do does doing down during each even
    ever few first for from further had has have having he her here hers herself him himself his how
    however i if in into is it its itself just last let like many may me might mine more most much
    must my myself never new next no nor not now of off often on once one only or other our ours out
    over own per rather same several shall she should since so some still such than that the their
    theirs them then there these they this those though through thus to too two under until up upon
    us very via was we well were what when where whether which while who whom whose why will with
    within without would yes yet you your yours yourself"""
)
"""Words of the language rather than names; a mention that is one of them is refused."""

CALENDAR = _words(
    """monday tuesday wednesday thursday friday saturday sunday january february march april may
    june july august september october november december jan feb mar apr jun jul aug sep sept oct
    nov dec ad bc am pm"""
)
"""Words of dates, written with capitals in English though they name nothing that is linked."""

CONNECTORS = _words(
    """a an and at by de del der des di do du e et for in la le les of on und the to van von
    y"""
)
"""Words inside names that no one searches by and acronyms leave out."""

ARTICLES = ("the", "a", "an")

LEGAL_SUFFIXES = _words(
    """ab ag asa as bv co company corp corporation gmbh inc incorporated kg limited llc llp lp ltd
    nv oy oyj plc pte pty sa sarl se spa srl"""
)
"""Legal forms at the end of company names, after points are dropped."""

PARTNERS = LEGAL_SUFFIXES | _words("associates bros brothers daughters partners son sons")
"""What stands behind "and" at the end of a company's name."""

PARTICLES = _words("al bin da de del della den der di dos du el ibn la le ten ter van von zu")
"""Words within a person's or a place's name that are written small."""

TITLES = _words(
    """admiral archbishop baron baroness bishop captain cardinal chairman chancellor coach colonel
    commander count countess dame doctor dr duchess duke earl emperor empress father general
    governor judge justice king lady lieutenant lord madam major mayor minister miss mr mrs ms
    officer pope president prince princess prof professor queen rabbi rev reverend saint sen senator
    sergeant sheikh sir sister st sultan"""
)
"""Words before a name that are not part of it; "prime", "vice", "crown" may precede them."""

ROLES = TITLES | _words(
    """ambassador chairwoman chief commissioner congressman congresswoman councilman councilwoman
    detective director gen gov lt rep secretary sen sgt spokesman spokeswoman superintendent"""
)
"""Titles, and offices that stand before the name of who holds them ("Treasury Secretary")."""

SHORT_TITLES = _words("col dr gen gov lt mr mrs ms prof rep rev sen sgt sr st")
"""Titles that are written with a point, which ends no sentence."""

BODIES = _words(
    """academy agency assembly association authority board brotherhood bureau center centre chamber
    church college commission committee confederation congress consortium council court department
    diocese faculty federation foundation fund hall hospital institute institution league library
    ministry museum office order organisation organization parliament school senate society
    university"""
)
"""What organisations are called whose names go on behind "of" and "for"."""

ADJECTIVE_ENDS = _words("area based born controlled led listed owned run style time wide")
"""Behind a hyphen these make a word that describes the name after it ("Ulm-based")."""

BEFORE_TITLES = _words("chief crown deputy first former grand late prime the then vice")

NUMBERS = {
    "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8",
    "nine": "9", "ten": "10", "eleven": "11", "twelve": "12",
    "first": "1st", "second": "2nd", "third": "3rd", "fourth": "4th", "fifth": "5th",
    "sixth": "6th", "seventh": "7th", "eighth": "8th", "ninth": "9th", "tenth": "10th",
    "ii": "2", "iii": "3", "iv": "4", "vi": "6", "vii": "7", "viii": "8", "ix": "9", "xi": "11",
    "xii": "12", "xiii": "13", "xiv": "14", "xvi": "16",
}  # fmt: skip
"""Number words, ordinals and Roman numerals (none of one letter) to figures."""

DEMONYM_ENDINGS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("ian", ("", "ia", "y", "e", "a", "o", "ium", "an")),
    ("ean", ("e", "ea", "", "us", "es", "ees")),
    ("an", ("a", "", "o", "e", "i", "y", "as", "any", "us")),
    ("ese", ("", "a", "o", "e", "ia")),
    ("ish", ("", "land", "and", "ey", "en", "ain", "eland")),
    ("i", ("", "a", "ia", "i")),
    ("ic", ("", "ia")),
    ("er", ("", "e")),
    ("ine", ("ina", "ines")),
    ("ite", ("", "a", "e")),
)
"""Ending of a demonym and what may stand in its place in the name, likeliest first."""

DERIVED_ENDINGS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("ologist", ("ology",)),
    ("ist", ("ism", "y", "e", "o", "", "a", "ics", "istics", "ing")),
    ("ian", ("ianity", "s", "")),
    ("er", ("ing",)),
    ("ete", ("etics", "on")),
    ("an", ("a", "ism", "anism")),
    ("ical", ("y", "ics", "ism")),
    ("al", ("ism", "e", "", "y")),
    ("atic", ("a", "atics", "y")),
    ("ic", ("icism", "ics", "ism", "y")),
)
"""Ending of a noun or adjective and that of the field, faith or activity it belongs to."""

IRREGULAR_DEMONYMS: dict[str, tuple[str, ...]] = {
    "afghan": ("Afghanistan",),
    "american": ("United States of America", "United States"),
    "briton": ("United Kingdom",),
    "british": ("United Kingdom", "Great Britain"),
    "croat": ("Croatia",),
    "cypriot": ("Cyprus",),
    "czech": ("Czech Republic", "Czechia"),
    "dane": ("Denmark",),
    "danish": ("Denmark",),
    "dutch": ("Netherlands", "Kingdom of the Netherlands"),
    "filipino": ("Philippines",),
    "finn": ("Finland",),
    "flemish": ("Flanders",),
    "french": ("France",),
    "greek": ("Greece",),
    "kazakh": ("Kazakhstan",),
    "kurd": ("Kurdistan",),
    "monegasque": ("Monaco",),
    "norwegian": ("Norway",),
    "pole": ("Poland",),
    "portuguese": ("Portugal",),
    "scot": ("Scotland",),
    "serb": ("Serbia",),
    "slovak": ("Slovakia",),
    "slovene": ("Slovenia",),
    "soviet": ("Soviet Union",),
    "spaniard": ("Spain",),
    "spanish": ("Spain",),
    "swede": ("Sweden",),
    "swiss": ("Switzerland",),
    "tajik": ("Tajikistan",),
    "thai": ("Thailand",),
    "turk": ("Turkey",),
    "turkmen": ("Turkmenistan",),
    "uzbek": ("Uzbekistan",),
    "venetian": ("Venice",),
    "welsh": ("Wales",),
}
"""Demonyms that no ending explains; used only when the graph has a label or alias so written."""
