"""Writes cases.tsv: text by text, what a detector of personal data must say. The check digits are
computed here, apart from the C code. Nobody's numbers: drawn from a fixed seed.

    python3 make.py > cases.tsv        kind (or "-" for nothing) TAB text
"""
import random

rnd = random.Random(20261130)
D = lambda n: "".join(rnd.choice("0123456789") for _ in range(n))
cut = lambda s, groups, seps: "".join(
    (seps[min(i - 1, len(seps) - 1)] if i else "") + s[sum(groups[:i]):sum(groups[:i + 1])] for i in range(len(groups)))
CONTEXTS = ("%s", "see %s.", "(%s)", "number: %s, filed", "Nr. %s;", "\u00e9t\u00e9 %s fin", "line\n%s\nline", '"%s"')


def luhn(s):
    for c in "0123456789":
        digits = [int(x) for x in s + c][::-1]
        if (sum(digits[::2]) + sum(sum(divmod(2 * x, 10)) for x in digits[1::2])) % 10 == 0:
            return c


def iban(cc, bban):
    n = int("".join(str(int(c, 36)) for c in bban + cc + "00"))
    return "%s%02d%s" % (cc, 98 - n % 97, bban)


def mod11_10(s):
    p = 10
    for c in s:
        t = (int(c) + p) % 10 or 10
        p = t * 2 % 11
    return str((11 - p) % 10)


def verhoeff(s):
    def mul(a, b):
        if a < 5:
            return (a + b) % 5 if b < 5 else 5 + (a + b) % 5
        return 5 + (a - 5 - b) % 5 if b < 5 else (a - b) % 5
    perm = [1, 5, 7, 6, 2, 8, 3, 0, 9, 4]
    for c in "0123456789":
        acc = 0
        for i, d in enumerate((s + c)[::-1]):
            d = int(d)
            for _ in range(i):
                d = perm[d]
            acc = mul(acc, d)
        if acc == 0:
            return c


def weights(s, w):
    return sum(int(a) * b for a, b in zip(s, w))


date = lambda: "%02d%02d" % (rnd.randint(1, 12), rnd.randint(1, 28))


def one(kind):
    """(the number, its check characters: how many at the end)"""
    if kind == "iban":
        cc, n = rnd.choice([("DE", 18), ("FR", 23), ("GB", None), ("NL", None), ("CH", 17), ("ES", 20), ("IT", None), ("BE", 12), ("NO", 11), ("PL", 24)])
        return iban(cc, D(n) if n else {"GB": "NWBK" + D(14), "NL": "ABNA" + D(10), "IT": "X" + D(22)}[cc])
    if kind == "payment-card":
        head, n = rnd.choice([("4", 16), ("52", 16), ("2345", 16), ("34", 15), ("37", 15), ("6011", 16), ("3056", 14), ("36", 14), ("3540", 16), ("62", 16)])
        if head == "3056":
            head = "3050"
        s = head + D(n - len(head) - 1)
        return s + luhn(s)
    if kind == "id-be":
        s = "%02d" % rnd.randint(30, 99) + date() + "%03d" % rnd.randint(1, 997)
        return s + "%02d" % (97 - int(s) % 97)
    if kind == "id-br":
        s = D(9)
        for n in (9, 10):
            s += str(weights(s, range(n + 1, 1, -1)) * 10 % 11 % 10)
        return s
    if kind == "id-ch":
        s = "756" + D(9)
        return s + str(-weights(s, [1, 3] * 6) % 10)
    if kind == "id-cn":
        s = "110105" + str(rnd.randint(1930, 2015)) + date() + D(3)
        w = [2 ** (17 - i) % 11 for i in range(17)]
        return s + "10X98765432"[weights(s, w) % 11]
    if kind == "id-de":
        while True:
            digits = rnd.sample("0123456789", 9)
            s = digits + [rnd.choice(digits)]
            rnd.shuffle(s)
            if s[0] != "0" and sorted(s.count(c) for c in "0123456789").count(0) == 1:
                return "".join(s) + mod11_10("".join(s))
    if kind == "id-es":
        letters = "TRWAGMYFPDXBNJZSQVHLCKE"
        lead = rnd.choice(["", "X", "Y", "Z"])
        s = D(7) if lead else D(8)
        return lead + s + letters[int(({"": "", "X": "0", "Y": "1", "Z": "2"}[lead]) + s) % 23]
    if kind == "id-fi":
        m = date()
        s, sign, n = m[2:] + m[:2] + "%02d" % rnd.randint(10, 99), rnd.choice("-A-"), "%03d" % rnd.randint(2, 899)
        return s + sign + n + "0123456789ABCDEFHJKLMNPRSTUVWXY"[int(s + n) % 31]
    if kind == "id-fr":
        s = rnd.choice("12") + D(2) + date()[:2] + rnd.choice(["75", "13", "2A", "59"]) + D(6)
        return s + "%02d" % (97 - int(s.replace("2A", "19")) % 97)
    if kind == "id-gb":
        while True:
            s = D(9)
            c = -weights(s, range(10, 1, -1)) % 11
            if c < 10:
                return s + str(c)
    if kind == "id-in":
        s = rnd.choice("23456789") + D(10)
        return s + verhoeff(s)
    if kind == "id-it":
        abc = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
        s = "".join(rnd.choice("BCDFGLMNPRSTV") for _ in range(6)) + D(2) + rnd.choice("ABCDEHLMPRST") + "%02d" % rnd.randint(1, 28) + rnd.choice("ABCDEFGHIL") + D(3)
        odd = dict(zip("0123456789", (1, 0, 5, 7, 9, 13, 15, 17, 19, 21)), **dict(zip(abc, (
            1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23))))
        even = dict(zip("0123456789", range(10)), **dict(zip(abc, range(26))))
        return s + abc[sum((even if i % 2 else odd)[c] for i, c in enumerate(s)) % 26]
    if kind == "id-nl":
        while True:
            s = D(8)
            c = weights(s, range(9, 1, -1)) % 11
            if c < 10 and int(s):
                return s + str(c)
    if kind == "id-pl":
        s = D(2) + date() + D(4)
        return s + str(-weights(s, [1, 3, 7, 9] * 3) % 10)
    if kind == "id-pt":
        s = rnd.choice("123") + D(7)
        c = 11 - weights(s, range(9, 1, -1)) % 11
        return s + str(c if c < 10 else 0)
    if kind == "id-se":
        s = "%02d" % rnd.randint(30, 99) + date() + D(3)
        return s + luhn(s)
    if kind == "id-us":
        return "%03d%02d%04d" % (rnd.choice([rnd.randint(1, 665), rnd.randint(667, 899)]), rnd.randint(1, 99), rnd.randint(1, 9999))


FORMS = {  # how it is written without a word in front
    "iban": [lambda s: s, lambda s: " ".join(s[i:i + 4] for i in range(0, len(s), 4)), lambda s: s.lower(), lambda s: "\u00a0".join(s[i:i + 4] for i in range(0, len(s), 4))],
    "payment-card": [lambda s: s, lambda s: {16: cut(s, (4, 4, 4, 4), " "), 15: cut(s, (4, 6, 5), " "), 14: cut(s, (4, 6, 4), "-")}[len(s)],
                     lambda s: {16: cut(s, (4, 4, 4, 4), "-"), 15: cut(s, (4, 6, 5), "-"), 14: s}[len(s)]],
    "id-be": [lambda s: cut(s, (2, 2, 2, 3, 2), "..-."), lambda s: cut(s, (6, 3, 2), "-.")],
    "id-br": [lambda s: cut(s, (3, 3, 3, 2), "..-")],
    "id-ch": [lambda s: s, lambda s: cut(s, (3, 4, 4, 2), "."), lambda s: cut(s, (3, 4, 4, 2), " ")],
    "id-cn": [lambda s: s], "id-de": [lambda s: cut(s, (2, 3, 3, 3), " ")], "id-es": [lambda s: s, lambda s: s[:8] + "-" + s[8:]], "id-fi": [lambda s: s],
    "id-fr": [lambda s: s, lambda s: cut(s, (1, 2, 2, 2, 3, 3, 2), " "), lambda s: cut(s, (1, 2, 2, 2, 3, 3, 2), "\u202f")],
    "id-in": [lambda s: cut(s, (4, 4, 4), " ")], "id-it": [lambda s: s, lambda s: s.lower()],
    "id-se": [lambda s: cut(s, (6, 4), "-"), lambda s: "19" + cut(s, (6, 4), "-")], "id-us": [lambda s: cut(s, (3, 2, 4), "-")]}
TOLD = {  # numbers whose check is too weak alone
    "id-be": "Rijksregisternummer %s", "id-br": "CPF: %s", "id-de": "IdNr. %s", "id-gb": "NHS number %s", "id-in": "Aadhaar no %s", "id-nl": "BSN %s",
    "id-pl": "PESEL: %s", "id-pt": "NIF %s", "id-se": "personnummer %s", "id-us": "SSN %s"}
MAIL = """ana@example.org a.b-c_d@mail.example.co.uk x+tag@sub.example.com J.Doe@EXAMPLE.DE o'neil@example.ie
m\u00fcller@b\u00fccher.example info@xn--bcher-kva.example a@b.io first.last@many.levels.of.example.museum 12345@example.net
mailto:team@example.com <root@host.example> user%alias@example.fr a1@2nd.example q@example.international""".split()
PHONES = """+49 30 901820|+33 1 42 34 56 78|+442079460958|+1 212-555-0123|+41 44 668 18 00|+86 10 6552 9988|+91-22-2270-0000|+55 11 3091-3116|+351 21 342 0000
01 42 34 56 78|06.12.34.56.78|mobile 0612345678|(212) 555-0123|212-555-0123|212.555.0123|Tel. 030/901820|Telefon: 089 1234567|Fax 0221 9876543|phone 020 7946 0958
0049 30 901820|00 33 1 42 34 56 78|mobil 0171 2345678|t\u00e9l : 04 91 00 00 00|call 555-867-5309|handy 0151 23456789|telefono 06 6982 0000|+31 (0) 20 624 1111""".replace("\n", "|").split("|")
NOTHING = """2026-11-30|30.11.2026|11/30/2026|2026-11-30T12:34:56Z|12:34:56|20261130|1.2.3|v10.15.7|3.14159265358979|1,234,567.89|1 234 567,89 EUR|$1000000|10 000 000
192.168.0.1|10.0.0.255|2001:db8::1|fe80::1ff:fe23:4567:890a|255.255.255.0|00:1a:2b:3c:4d:5e|48.8566, 2.3522|-33.8688|51\u00b030'26"N
550e8400-e29b-41d4-a716-446655440000|d41d8cd98f00b204e9800998ecf8427e|da39a3ee5e6b4b0d3255bfef95601890afd80709|0xdeadbeef|0x00000000FFFFFFFF|b9d44fd
978-3-16-148410-0|9783161484100|ISBN 0-306-40615-2|ISSN 2049-3630|10.1000/182|arXiv:2302.01234|RFC 9112|ISO/IEC 7812-1|DIN 5008|45 CFR 164.308
order 1234567890|Order-No. 100200300400|invoice 2026/000123|Rechnung 4711|ticket #123456|case 1:23-cv-04567|PO 4500012345|SKU 0012345678905|batch 20261130-001
1234567890123456|1111222233334445|0000000000000000|9999999999999999|123456789012345678901234567890|4111-1111-1111-1111-1111|4111 1111 1111 1112|411111111111111
12345|90210|SW1A 1AA|75008 Paris|D-10115 Berlin|F-75008|10115|1010 Wien|AB1 2CD|K1A 0B6|postcode 1234 AB
http://example.com/a@b|https://user:secret@host.example/|https://user@host.example/path|git@github.example:org/repo|icon@2x.png|photo@3x.jpg|@handle|a@b|a@|@example.com|a@b.c1|x@y.12
package@1.2.3|5 @ 3.50|user@localhost|foo.@example.com|a..b|me at example dot com|1e10|6.02214076e23|1/2|3-4-5|2-0|10-15|24/7|9-5|50-50|1990-2000|pp. 123-145|12-13-14-15
temperature 36.6|speed 299792458 m/s|population 67413000|42195 m|8848 m|100%|0.0001|1e-9|2^31|2147483647|9223372036854775807|4294967296|65535|1048576|6378137
GB82 WEST 1234 5698 7654 33|DE89 3704 0044 0532 0130 01|DE89370400440532013|FR00 0000 0000 0000 0000 0000 000|XX12 3456 7890 1234|AB12CD34EF56GH78|MX11 2222 3333
chapter 12, section 3.4.5.6|Table 4-12|Figure 3|Article 45|Art. 9|Psalm 119|Room 101|Flight LH 1234|AF0012|ICE 1001|A380-800|747-400|Boeing 737-800|H100-SXM|L40S|RTX 4090
000-12-3456|666-12-3456|900-12-3456|123-00-4567|123-45-0000|12-345-6789|123-456-789|1234-56-789|01-02-2003|2003-04-05|99-9999999|11-22-33-44
+1|+12|+123 456|+10000000|+5 %|++1234567890|0612345678|1 0044 0532 0130 01|C++11 2011|10+20|+0 123 456 789|1+1|UTC+01:00|GMT+0200|+00:00|2026-11-30 +0100
nhs 9434765918|bsn 111222334|pesel 44051401358|cpf 111.111.111-11|aadhaar 1234 5678 9012|nif 123456780|AHV 756.1234.5678.98|1 84 12 76 451 089 47|12345678A
the quick brown fox|lorem ipsum dolor sit amet|Prozessor mit 8 Kernen|un texte sans nombre|\u4e2d\u6587\u6587\u672c|\u0440\u0443\u0441\u0441\u043a\u0438\u0439|a b c d e f g|x=1;y=2;z=3|#ff00ff|rgb(255,255,255)|[1,2,3,4,5,6,7,8,9]
00000000|11111111|12345678|87654321|1234567|123456789|1234567890|12345678901|123456789012|1234567890123|12345678901234|123456789012345""".replace("\n", "|").split("|")

out = []
for kind in list(FORMS) + [k for k in TOLD if k not in FORMS]:
    for i in range(5):
        for form in FORMS.get(kind, []):
            out.append((kind, CONTEXTS[rnd.randrange(len(CONTEXTS))] % form(one(kind))))
        if kind in TOLD:
            out.append((kind, TOLD[kind] % one(kind)))
for i, m in enumerate(MAIL):
    out.append(("email", m))
    out.append(("email", CONTEXTS[i % len(CONTEXTS)] % m))
for i, p in enumerate(PHONES):
    out.append(("phone", p))
    out.append(("phone", CONTEXTS[i % len(CONTEXTS)] % p if p[0] not in "(" else p))
# the same numbers with another last character, and glued to a word
for kind in FORMS:
    if kind == "id-us":
        continue
    for i in range(12):
        s = one(kind)
        last = s[-1]
        bad = s[:-1] + rnd.choice([c for c in ("0123456789" if last.isdigit() else "ABCDEFGHJKLMNPQRSTUVWXYZ") if c != last])
        if kind == "iban":
            bad = s[:2] + "%02d" % ((int(s[2:4]) + 3) % 97 + 2) + s[4:]
        form = FORMS[kind][i % len(FORMS[kind])]
        out.append(("-", form(bad)))
        out.append(("-", "x" + form(s).replace("-", "").replace(" ", "").replace(".", "").replace("\u00a0", "").replace("\u202f", "") + "q"))
for kind in TOLD:  # no word in front, written in one piece
    for i in range(4):
        s = one(kind)
        out.append(("-", "reference %s" % s))
for s in NOTHING:
    out.append(("-", s))
    out.append(("-", "a word, " + s + " and more"))
seen = set()
for kind, text in out:
    if (kind, text) not in seen:
        seen.add((kind, text))
        print(kind + "\t" + text.replace("\n", "\\n"))
