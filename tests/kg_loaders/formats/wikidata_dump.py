"""A dump in the form of Wikidata's, of any size.

    python tests/kg_loaders/formats/wikidata_dump.py 10000 -o x.json.gz [--odd]

Entities have labels in dozens of languages, statements with hashes, references and qualifiers, and
sitelinks, some 9 KB each, as the real ones do. With `odd` every oddity of the dumps occurs: the
three ranks, values of all types, somevalue and novalue, redirects, deleted entities, lexemes,
properties, empty maps written `[]`, ids without `id`, texts in every script, escapes.
"""

from __future__ import annotations

import argparse
import bz2
import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

Json = dict[str, Any]
LANGUAGES = (
    "en", "de", "fr", "es", "it", "nl", "pt", "ru", "zh", "ja", "ar", "sv", "pl", "uk", "ca", "cs",
    "da", "fi", "hu", "ko", "nb", "ro", "tr", "vi", "fa", "he", "id", "el", "eu", "gl", "mul",
    "en-gb", "en-ca", "zh-hans", "sr-el",
)  # fmt: skip
PROPERTIES = tuple(f"P{n}" for n in (17, 19, 20, 27, 31, 36, 39, 50, 57, 106, 131, 138, 159, 161))
OTHERS = {"P569": "time", "P18": "string", "P214": "string", "P625": "globecoordinate",
          "P1082": "quantity", "P1476": "monolingualtext", "P646": "string"}  # fmt: skip
TYPES = {"time": "time", "string": "external-id", "globecoordinate": "globe-coordinate",
         "quantity": "quantity", "monolingualtext": "monolingualtext"}  # fmt: skip
N_CLASSES = 40
"""Q1 to Q40 are classes: Qn is a subclass of Q(n // 2)."""
WORDS = ("Paris", "Zürich", "北京", "القاهرة", "Кёльн", 'São "Paulo"', "o\\n", "a\tb", "😀")
ODDITIES = (
    "redirect", "deleted", "lexeme", "no id", "empty maps", "old id", "no snak", "no datavalue",
    "bad value", "property value", "unknown kind",
)  # fmt: skip


def entities(n: int, *, seed: int = 0, odd: bool = False) -> Iterator[Json]:
    """`n` items, then the properties; the same for the same arguments."""
    random = Random(seed)
    for number in range(1, n + 1):
        yield item(random, number, n)
        if odd and random.random() < 0.3:
            yield oddity(random.choice(ODDITIES), random, n + number, n)
    for relation in (*PROPERTIES, "P279", *OTHERS):
        yield {
            "type": "property", "datatype": TYPES.get(OTHERS.get(relation, ""), "wikibase-item"),
            "id": relation, "labels": terms(random, relation), "descriptions": {},
            "aliases": [], "claims": {"P1629": [statement(random, "P1629", item_value(1))]},
            "lastrevid": 1,
        }  # fmt: skip


def item(random: Random, number: int, n: int) -> Json:
    """An item; of the first `N_CLASSES` a class, else an instance of one."""
    claims: dict[str, list[Json]] = {}
    if number <= min(N_CLASSES, n):
        claims["P279"] = [statement(random, "P279", item_value(max(number // 2, 1)))]
    else:
        kind = random.randint(1, min(N_CLASSES, n))
        claims["P31"] = [statement(random, "P31", item_value(kind))]
    for relation in random.sample(PROPERTIES, random.randint(1, 6)):
        claims.setdefault(relation, []).extend(
            statement(random, relation, _value(random, n), _rank(random), qualified=True, n=n)
            for _ in range(random.choice((1, 1, 1, 2, 5)))
        )
    for relation in random.sample(list(OTHERS), random.randint(0, len(OTHERS))):
        claims[relation] = [statement(random, relation, other_value(random, OTHERS[relation]))]
    name = f"{random.choice(WORDS)} {number}"
    sites = random.sample(("enwiki", "dewiki", "frwiki", "commonswiki"), random.randint(0, 4))
    return {
        "type": "item", "id": f"Q{number}", "labels": terms(random, name),
        "descriptions": terms(random, f"thing {number % 97}"),
        "aliases": {
            tag: [{"language": tag, "value": f"{name} {tag} {k}"} for k in range(2)]
            for tag in random.sample(LANGUAGES, random.randint(0, 6))
        },
        "claims": claims,
        "sitelinks": {
            site: {"site": site, "title": name, "badges": [], "url": f"https://{site}/{number}"}
            for site in sites
        },
        "pageid": number, "ns": 0, "title": f"Q{number}", "lastrevid": 9, "modified": "2026-01-01",
    }  # fmt: skip


def _value(random: Random, n: int) -> Json:
    chance = random.random()
    if chance < 0.02:
        return {"snaktype": random.choice(("somevalue", "novalue"))}
    return item_value(
        min(int(random.paretovariate(0.5)), n) if chance < 0.5 else random.randint(1, n)
    )


def _rank(random: Random) -> str:
    return random.choices(("normal", "preferred", "deprecated"), (90, 6, 4))[0]


def terms(random: Random, name: str) -> Json:
    """A text in some languages, often the same."""
    return {
        tag: {"language": tag, "value": name}
        for tag in random.sample(LANGUAGES, random.randint(1, len(LANGUAGES)))
    }


def item_value(number: int) -> Json:
    return {
        "snaktype": "value", "datatype": "wikibase-item",
        "datavalue": {
            "value": {"entity-type": "item", "numeric-id": number, "id": f"Q{number}"},
            "type": "wikibase-entityid",
        },
    }  # fmt: skip


def other_value(random: Random, kind: str) -> Json:
    values: dict[str, Any] = {
        "string": f"{random.getrandbits(48):x}",
        "time": {
            "time": f"+{random.randint(1000, 2020)}-01-01T00:00:00Z", "timezone": 0, "before": 0,
            "after": 0, "precision": 11, "calendarmodel": "http://www.wikidata.org/entity/Q1985727",
        },
        "quantity": {"amount": f"+{random.randint(1, 10**6)}", "unit": "1"},
        "monolingualtext": {"text": random.choice(WORDS), "language": "en"},
        "globecoordinate": {
            "latitude": random.random(), "longitude": random.random(), "altitude": None,
            "precision": 0.0001, "globe": "http://www.wikidata.org/entity/Q2",
        },
    }  # fmt: skip
    datavalue = {"value": values[kind], "type": kind}
    return {"snaktype": "value", "datavalue": datavalue, "datatype": TYPES[kind]}


def statement(
    random: Random, relation: str, snak: Json, rank: str = "normal", *, qualified: bool = False,
    n: int = 1,
) -> Json:  # fmt: skip
    """A statement with references, and with qualifiers where it is `qualified`."""
    results: Json = {
        "mainsnak": {"snaktype": snak["snaktype"], "property": relation, **snak},
        "type": "statement", "id": f"Q0${random.getrandbits(128):032x}", "rank": rank,
    }  # fmt: skip
    if random.random() < 0.6:
        snaks = {
            "P248": [_of("P248", item_value(random.randint(1, n)), random)],
            "P813": [_of("P813", other_value(random, "time"), random)],
        }
        results["references"] = [
            {"hash": f"{random.getrandbits(160):040x}", "snaks": snaks, "snaks-order": list(snaks)}
        ]
    if qualified and random.random() < 0.3:
        qualifiers = {
            "P642": [_of("P642", item_value(random.randint(1, n)), random)],
            "P580": [_of("P580", other_value(random, "time"), random)],
        }
        results |= {"qualifiers": qualifiers, "qualifiers-order": list(qualifiers)}
    return results


def _of(relation: str, snak: Json, random: Random) -> Json:
    return {**snak, "property": relation, "hash": f"{random.getrandbits(160):040x}"}


def oddity(kind: str, random: Random, number: int, n: int) -> Json:
    """An entity with one of `ODDITIES`."""
    one: Json = {"type": "item", "id": f"Q{number}", "labels": {}, "claims": {}}
    claim = statement(random, "P17", item_value(random.randint(1, n)))
    snaks: dict[str, Any] = {
        "old id": {"entity-type": "item", "numeric-id": random.randint(1, n)},
        "property value": {"entity-type": "property", "numeric-id": 17, "id": "P17"},
        "unknown kind": {"entity-type": "moon", "id": "X1"},
    }
    if kind in snaks:
        claim["mainsnak"]["datavalue"]["value"] = snaks[kind]
    elif kind == "bad value":
        claim["mainsnak"]["datavalue"] = {"value": "?", "type": "bad"}
    elif kind == "no datavalue":
        del claim["mainsnak"]["datavalue"]
    elif kind == "no snak":
        claim["mainsnak"] = None
    one["claims"] = {"P17": [claim]}
    if kind == "redirect":
        return {"entity": f"Q{number}", "id": f"Q{number}", "redirect": "Q1"}
    if kind == "deleted":
        return {"id": f"Q{number}", "missing": ""}
    if kind == "lexeme":
        return {"type": "lexeme", "id": f"L{number}", "lemmas": {}, "claims": one["claims"]}
    if kind == "no id":
        return {"type": "item", "labels": {}}
    if kind == "empty maps":
        return {
            **one,
            "labels": [],
            "aliases": [],
            "descriptions": [],
            "claims": [],
            "sitelinks": [],
        }
    return one


def write(path: Path, n: int, *, seed: int = 0, odd: bool = False) -> None:
    """The dump as Wikidata writes it, packed as the suffix of `path` says."""
    opens: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open}
    with opens.get(path.suffix, open)(path, "wt", encoding="utf-8", newline="\n") as file:
        file.write("[")
        for number, entity in enumerate(entities(n, seed=seed, odd=odd)):
            file.write(",\n" if number else "\n")
            file.write(json.dumps(entity, separators=(",", ":")))
        file.write("\n]\n")


def read_with_json(
    path: Path,
    languages: tuple[str, ...] = ("en", "mul"),
    decode: Callable[[bytes], Any] = json.loads,
) -> tuple[Any, Any]:
    """Truthy triples and texts (node, kind, value, language), by a loop over decoded lines."""
    triples, texts = [], []
    with path.open("rb") as file:
        for line in file:
            line = line.strip().rstrip(b",")
            if line in (b"[", b"]"):
                continue
            entity = decode(line)
            id = entity.get("id", "")
            if id[:1] not in ("Q", "P") or "missing" in entity or "redirect" in entity:
                continue
            for kind in ("labels", "aliases", "descriptions"):
                result = entity.get(kind) or {}
                for language in languages:
                    terms = result.get(language, [])
                    for term in terms if isinstance(terms, list) else [terms]:
                        texts.append((id, kind, term["value"], language))
            if id[0] == "P":
                continue
            for relation, statements in (entity["claims"] or {}).items():
                ranks = [statement["rank"] for statement in statements]
                best = "preferred" if "preferred" in ranks else "normal"
                for statement in statements:
                    snak = statement["mainsnak"]
                    if statement["rank"] != best or snak is None or snak["snaktype"] != "value":
                        continue
                    value = snak.get("datavalue", {"type": ""})
                    if value["type"] == "wikibase-entityid":
                        item = value["value"].get("id") or f"Q{value['value']['numeric-id']}"
                        if item[0] == "Q":
                            triples.append((id, relation, item))
    return triples, texts


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("items", type=int)
    parser.add_argument("--out", "-o", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--odd", action="store_true")
    arguments = parser.parse_args()
    write(arguments.out, arguments.items, seed=arguments.seed, odd=arguments.odd)


if __name__ == "__main__":
    main()
