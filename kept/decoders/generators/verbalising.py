"""Triples of ConceptNet and ATOMIC as English sentences, by one template for each relation.

Guan et al. 2020, section 3.3, describe fixed templates: for ConceptNet a phrase between head and
tail, for ATOMIC the event and then a sentence about PersonX or the others. Their list was not
released with the code, only sentences made with it: the templates here are ours.
"""

from __future__ import annotations

from kept.errors import ConfigError

CONCEPTNET = {
    "AtLocation": "{head} is at {tail}",
    "CapableOf": "{head} can {tail}",
    "Causes": "{head} causes {tail}",
    "CausesDesire": "{head} makes someone want {tail}",
    "CreatedBy": "{head} is created by {tail}",
    "DefinedAs": "{head} is defined as {tail}",
    "DesireOf": "{head} is desired by {tail}",
    "Desires": "{head} wants {tail}",
    "HasA": "{head} has {tail}",
    "HasFirstSubevent": "{head} begins with {tail}",
    "HasLastSubevent": "{head} ends with {tail}",
    "HasPainCharacter": "{head} hurts in a way that is {tail}",
    "HasPainIntensity": "{head} hurts {tail}",
    "HasPrerequisite": "{head} needs {tail} first",
    "HasProperty": "{head} is {tail}",
    "HasSubEvent": "{head} includes {tail}",
    "HasSubevent": "{head} includes {tail}",
    "InheritsFrom": "{head} inherits from {tail}",
    "InstanceOf": "{head} is an instance of {tail}",
    "IsA": "{head} is a kind of {tail}",
    "LocatedNear": "{head} is near {tail}",
    "LocationOfAction": "{head} is where {tail} happens",
    "MadeOf": "{head} is made of {tail}",
    "MadeUpOf": "{head} is made up of {tail}",
    "MotivatedByGoal": "{head} is done in order to {tail}",
    "NotCapableOf": "{head} can not {tail}",
    "NotDesires": "{head} does not want {tail}",
    "NotHasA": "{head} does not have {tail}",
    "NotHasProperty": "{head} is not {tail}",
    "NotIsA": "{head} is not a kind of {tail}",
    "NotMadeOf": "{head} is not made of {tail}",
    "ObjectUse": "{head} can be used to {tail}",
    "PartOf": "{head} is part of {tail}",
    "ReceivesAction": "{head} can be {tail}",
    "RelatedTo": "{head} has to do with {tail}",
    "SymbolOf": "{head} is a symbol of {tail}",
    "UsedFor": "{head} is used for {tail}",
}
ATOMIC = {
    "HinderedBy": "{head} . This does not happen when {tail}",
    "isAfter": "{head} . Before that , {tail}",
    "isBefore": "{head} . After that , {tail}",
    "isFilledBy": "{head} . The blank is {tail}",
    "oEffect": "{head} . As a result , the others {tail}",
    "oReact": "{head} . The others feel {tail}",
    "oWant": "{head} . The others want {tail}",
    "xAttr": "{head} . PersonX is seen as {tail}",
    "xEffect": "{head} . As a result , PersonX {tail}",
    "xIntent": "{head} . PersonX intends {tail}",
    "xNeed": "{head} . Before that , PersonX needs {tail}",
    "xReact": "{head} . PersonX feels {tail}",
    "xReason": "{head} . PersonX does so because {tail}",
    "xWant": "{head} . PersonX wants {tail}",
}


def verbalise(head: str, relation: str, tail: str) -> str:
    """Return one triple as a sentence; raises `ConfigError` for a relation without a template.

    >>> verbalise("thimble", "UsedFor", "sewing")
    'thimble is used for sewing'
    >>> verbalise("PersonX feeds the crow", "xAttr", "kind")
    'PersonX feeds the crow . PersonX is seen as kind'
    """
    template = CONCEPTNET.get(relation) or ATOMIC.get(relation)
    if template is None:
        raise ConfigError(
            f"relation {relation!r} has no template; there are "
            f"{', '.join(sorted({*CONCEPTNET, *ATOMIC}))}"
        )
    return template.format(head=head.strip().rstrip("."), tail=tail.strip().rstrip("."))
